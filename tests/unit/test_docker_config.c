#include "image/docker_config.h"

#include "base/attr.h"
#include "base/fd.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static int parse(const char *text, const char *registry, struct login *l, struct cay_error *err)
{
	return docker_config_parse(text, strlen(text), registry, "team/app", l, err);
}

static void who_is_known(void **state)
{
	/* u:p and v:q:r */
	static const struct {
		const char *text, *registry, *user, *password;
	} rows[] = {
		{"{}", "a.b", "", ""},
		{"{\"auths\":{\"a.b\":{\"auth\":\"dTpw\"}}}", "a.b", "u", "p"},
		{"{\"auths\":{\"a.b\":{\"auth\":\"dTpw\"}}}", "b.a", "", ""},
		{"{\"auths\":{\"a.b\":{\"auth\":\"dTpw\"}}}", "a.b:5000", "", ""},
		{"{\"auths\":{\"a.b:5000\":{\"auth\":\"dTpw\"}}}", "a.b", "", ""},
		{"{\"auths\":{\"https://a.b/v2/\":{\"auth\":\"dTpw\"}}}", "a.b", "u", "p"},
		{"{\"auths\":{\"a.b\":{\"auth\":\"djpxOnI=\"}}}", "a.b", "v", "q:r"},
		{"{\"auths\":{\"a.b\":{\"username\":\"x\",\"password\":\"y\"}}}", "a.b", "x", "y"},
		{"{\"auths\":{\"a.b\":{}}}", "a.b", "", ""},
		{"{\"auths\":{\"https://index.docker.io/v1/\":{\"auth\":\"dTpw\"}}}", "docker.io",
		 "u", "p"},
		{"{\"auths\":{\"docker.io\":{\"auth\":\"dTpw\"}}}", "docker.io", "u", "p"},
		{"{\"auths\":{\"index.docker.io\":{\"auth\":\"dTpw\"}}}", "evil.docker.io", "", ""},
		/* The longest name counts, on borders of parts. */
		{"{\"auths\":{\"a.b/team\":{\"auth\":\"djpxOnI=\"},\"a.b\":{\"auth\":\"dTpw\"}}}",
		 "a.b", "v", "q:r"},
		{"{\"auths\":{\"a.b/te\":{\"auth\":\"djpxOnI=\"},\"a.b\":{\"auth\":\"dTpw\"}}}",
		 "a.b", "u", "p"},
		{"{\"auths\":{\"a.b/team/app\":{\"auth\":\"dTpw\"}}}", "a.b", "u", "p"},
		{"{\"auths\":{\"a.b/other\":{\"auth\":\"dTpw\"}}}", "a.b", "", ""},
	};
	struct login l;
	struct cay_error err;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		assert_int_equal(parse(rows[i].text, rows[i].registry, &l, &err), 0);
		assert_string_equal(l.user, rows[i].user);
		assert_string_equal(l.password, rows[i].password);
		assert_string_equal(l.helper, "");
	}
}

static void helpers_are_named(void **state)
{
	struct login l;
	struct cay_error err;

	(void)state;
	assert_int_equal(parse("{\"auths\":{\"a.b\":{}},\"credsStore\":\"pass\"}", "a.b", &l, &err),
			 0);
	assert_string_equal(l.user, "");
	assert_string_equal(l.helper, "pass");
	assert_int_equal(parse("{\"credHelpers\":{\"a.b\":\"ecr\"},\"credsStore\":\"pass\"}", "a.b",
			       &l, &err),
			 0);
	assert_string_equal(l.helper, "ecr");
	assert_int_equal(parse("{\"auths\":{\"a.b\":{\"auth\":\"dTpw\"}},\"credsStore\":\"pass\"}",
			       "a.b", &l, &err),
			 0);
	assert_string_equal(l.user, "u");
	assert_string_equal(l.helper, "");
}

static void what_is_wrong(void **state)
{
	static const char *const rows[] = {
		"",
		"{",
		"{\"auths\":{\"a.b\":{\"auth\":\"dTpw!\"}}}",
		"{\"auths\":{\"a.b\":{\"auth\":\"dXA=\"}}}",     /* up */
		"{\"auths\":{\"a.b\":{\"auth\":\"OnA=\"}}}",     /* :p */
		"{\"auths\":{\"a.b\":{\"auth\":\"dTpwAHg=\"}}}", /* u:p, NUL, x */
		"{\"auths\":{\"a.b\":{\"username\":\"x\"}}}",
	};
	struct login l;
	struct cay_error err;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (parse(rows[i], "a.b", &l, &err) == 0)
			fail_msg("%s is taken", rows[i]);
	/* What is wrong about others is not looked at. */
	assert_int_equal(parse(rows[2], "b.a", &l, &err), 0);
}

static void identity_tokens(void **state)
{
	struct login l;
	struct cay_error err;
	char text[LOGIN_TEXT_SIZE + 100];

	(void)state;
	/* As Azure's registries have it: a name that is none, and no password. */
	assert_int_equal(parse("{\"credsStore\":\"x\",\"auths\":{\"a.b\":{\"auth\":\"dTo=\","
			       "\"identitytoken\":\"ey.J_-\"}}}",
			       "a.b", &l, &err),
			 0);
	assert_string_equal(l.identity, "ey.J_-");
	assert_string_equal(l.user, "");
	assert_string_equal(l.helper, "");
	assert_int_equal(parse("{\"auths\":{\"a.b\":{\"identitytoken\":\"\"}}}", "a.b", &l, &err),
			 0);
	assert_string_equal(l.identity, "");
	(void)snprintf(text, sizeof(text), "{\"auths\":{\"a.b\":{\"identitytoken\":\"%0*d\"}}}",
		       LOGIN_TEXT_SIZE, 1);
	assert_int_equal(parse(text, "a.b", &l, &err), -1);
}

static void where_it_is_looked_for(void **state)
{
	char dir[] = "/tmp/docker-config-XXXXXX", path[200];
	struct login l;
	struct cay_error err;

	(void)state;
	assert_non_null(mkdtemp(dir));
	(void)unsetenv("REGISTRY_AUTH_FILE");
	(void)unsetenv("XDG_RUNTIME_DIR");
	assert_int_equal(setenv("HOME", dir, 1), 0);
	assert_int_equal(setenv("DOCKER_CONFIG", dir, 1), 0);
	assert_int_equal(docker_config_find("a.b", "x", &l, &err), 0);
	assert_string_equal(l.user, "");
	(void)snprintf(path, sizeof(path), "%s/auth.json", dir);
	assert_int_equal(setenv("REGISTRY_AUTH_FILE", path, 1), 0);
	assert_int_equal(fd_create_file_at(AT_FDCWD, path,
					   "{\"auths\":{\"a.b\":{\"auth\":\"dTpw\"}}}", 33, 0600),
			 0);
	assert_int_equal(docker_config_find("a.b", "x", &l, &err), 0);
	assert_string_equal(l.user, "u");
	(void)unlink(path);
	(void)snprintf(path, sizeof(path), "%s/config.json", dir);
	assert_int_equal(fd_create_file_at(AT_FDCWD, path, "{", 1, 0600), 0);
	assert_int_equal(docker_config_find("a.b", "x", &l, &err), -1);
	assert_non_null(strstr(err.text, path));
	(void)unlink(path);
	(void)rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_is_known),           cmocka_unit_test(helpers_are_named),
		cmocka_unit_test(what_is_wrong),          cmocka_unit_test(identity_tokens),
		cmocka_unit_test(where_it_is_looked_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
