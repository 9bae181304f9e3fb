/* Where engines are found: settings, environment, contexts, sockets. */
#include "engine/container/place.h"

#include "base/attr.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static char home[] = "/tmp/cay-test-XXXXXX";

static void put(const char *path, const char *text)
{
	char full[200];
	FILE *f;

	(void)snprintf(full, sizeof(full), "%s/%s", home, path);
	f = fopen(full, "w");
	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

static void make_dir(const char *path)
{
	char full[200];

	(void)snprintf(full, sizeof(full), "%s/%s", home, path);
	assert_int_equal(mkdir(full, 0700), 0);
}

static int start(void **state)
{
	(void)state;
	assert_non_null(mkdtemp(home));
	assert_int_equal(setenv("HOME", home, 1), 0);
	assert_int_equal(unsetenv("XDG_RUNTIME_DIR"), 0);
	make_dir(".docker");
	make_dir(".docker/contexts");
	make_dir(".docker/contexts/meta");
	make_dir(".docker/contexts/meta/0a");
	make_dir(".docker/contexts/meta/0b");
	make_dir(".docker/contexts/meta/0c");
	put(".docker/contexts/meta/0a/meta.json", "no JSON");
	put(".docker/contexts/meta/0b/meta.json",
	    "{\"Name\":\"mine\",\"Endpoints\":{\"docker\":{\"Host\":\"unix:///run/mine.sock\"}}}");
	put(".docker/contexts/meta/0c/meta.json",
	    "{\"Name\":\"far\",\"Endpoints\":{\"docker\":{\"Host\":\"ssh://far.example.org\"}}}");
	return 0;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
	(void)st;
	(void)kind;
	(void)at;
	return remove(path);
}

static int stop(void **state)
{
	(void)state;
	return nftw(home, remove_one, 10, FTW_DEPTH | FTW_PHYS);
}

static void expect(enum spec_engine engine, const struct settings *s, const char *path)
{
	struct docker_place p;
	struct cay_error err;

	if (place_find(engine, s, &p, &err) < 0)
		fail_msg("%s", err.text);
	assert_string_equal(p.path, path);
	assert_int_equal(p.engine, engine);
}

static void refuse(enum spec_engine engine, const struct settings *s, enum cay_code code)
{
	struct docker_place p;
	struct cay_error err;

	assert_int_equal(place_find(engine, s, &p, &err), -1);
	if (err.code != code)
		fail_msg("%s: %s", cay_code_name(err.code), err.text);
	assert_true(err.hint[0] || strstr(err.text, "longer"));
}

static void settings_come_first(void **state)
{
	struct settings s;
	struct cay_error err;

	(void)state;
	settings_init(&s);
	assert_int_equal(settings_parse(&s, "f",
					"[docker]\nsocket=/a/b\nruntime=runsc\n"
					"[podman]\nenabled=no\n",
					&err),
			 0);
	assert_int_equal(setenv("DOCKER_HOST", "unix:///from/environment", 1), 0);
	expect(ENGINE_DOCKER, &s, "/a/b");
	assert_string_equal(place_settings(ENGINE_DOCKER, &s)->runtime, "runsc");
	refuse(ENGINE_PODMAN, &s, CAY_E_POLICY);
	assert_int_equal(settings_parse(&s, "f", "[docker]\nruntime=a b\n", &err), -1);
	assert_int_equal(unsetenv("DOCKER_HOST"), 0);
	settings_done(&s);
}

static void the_environment_says(void **state)
{
	struct settings s;
	char text[300];

	(void)state;
	settings_init(&s);
	assert_int_equal(setenv("DOCKER_HOST", "unix:///from/environment", 1), 0);
	expect(ENGINE_DOCKER, &s, "/from/environment");
	expect(ENGINE_PODMAN, &s, "/run/podman/podman.sock");
	assert_int_equal(setenv("CONTAINER_HOST", "unix:///p", 1), 0);
	expect(ENGINE_PODMAN, &s, "/p");
	assert_int_equal(setenv("DOCKER_HOST", "tcp://10.0.0.1:2376", 1), 0);
	refuse(ENGINE_DOCKER, &s, CAY_E_UNSUPPORTED);
	assert_int_equal(setenv("DOCKER_HOST", "ssh://far", 1), 0);
	refuse(ENGINE_DOCKER, &s, CAY_E_UNSUPPORTED);
	assert_int_equal(setenv("DOCKER_HOST", "unix://relative", 1), 0);
	refuse(ENGINE_DOCKER, &s, CAY_E_ENGINE);
	(void)snprintf(text, sizeof(text), "unix:///%0200d", 0);
	assert_int_equal(setenv("DOCKER_HOST", text, 1), 0);
	refuse(ENGINE_DOCKER, &s, CAY_E_ENGINE);
	assert_int_equal(unsetenv("DOCKER_HOST"), 0);
	assert_int_equal(unsetenv("CONTAINER_HOST"), 0);
	settings_done(&s);
}

static void contexts_are_followed(void **state)
{
	struct settings s;

	(void)state;
	settings_init(&s);
	expect(ENGINE_DOCKER, &s, "/var/run/docker.sock");
	put(".docker/config.json", "{\"currentContext\":\"mine\"}");
	expect(ENGINE_DOCKER, &s, "/run/mine.sock");
	put(".docker/config.json", "{\"currentContext\":\"far\"}");
	refuse(ENGINE_DOCKER, &s, CAY_E_UNSUPPORTED);
	put(".docker/config.json", "{\"currentContext\":\"gone\"}");
	refuse(ENGINE_DOCKER, &s, CAY_E_ENGINE);
	put(".docker/config.json", "{\"currentContext\":\"default\"}");
	expect(ENGINE_DOCKER, &s, "/var/run/docker.sock");
	put(".docker/config.json", "not JSON");
	expect(ENGINE_DOCKER, &s, "/var/run/docker.sock");
	assert_int_equal(setenv("DOCKER_CONTEXT", "mine", 1), 0);
	expect(ENGINE_DOCKER, &s, "/run/mine.sock");
	assert_int_equal(unsetenv("DOCKER_CONTEXT"), 0);
	settings_done(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(settings_come_first),
		cmocka_unit_test(the_environment_says),
		cmocka_unit_test(contexts_are_followed),
	};

	(void)unsetenv("DOCKER_HOST");
	(void)unsetenv("DOCKER_CONTEXT");
	(void)unsetenv("DOCKER_CONFIG");
	(void)unsetenv("CONTAINER_HOST");
	return cmocka_run_group_tests(tests, start, stop);
}
