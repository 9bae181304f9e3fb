#include "spec/spec.h"

#include "base/attr.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#define VARIABLE "CAY_TEST_SPEC_VARIABLE"

static struct spec *spec_new(void)
{
	struct spec *s = calloc(1, sizeof(*s));

	assert_non_null(s);
	return s;
}

static void spec_freep(struct spec **s)
{
	spec_done(*s);
	free(*s);
}

static void check_invalid(int r, const struct cay_error *err, const char *words)
{
	assert_int_equal(r, -1);
	assert_int_equal(err->code, CAY_E_INVALID);
	if (!strstr(err->text, words))
		fail_msg("'%s' does not say '%s'", err->text, words);
}

static void check_mount(const char *text, const char *source, const char *target,
			enum access access)
{
	_cleanup_(spec_freep) struct spec *s = spec_new();
	struct cay_error err;

	if (spec_add_mount(s, text, &err) < 0)
		fail_msg("%s", err.text);
	assert_int_equal(s->n_mounts, 1);
	assert_string_equal(s->mounts[0].source, source);
	assert_string_equal(s->mounts[0].target, target);
	assert_int_equal(s->mounts[0].access, access);
}

static void mounts_are_read(void **state)
{
	(void)state;
	check_mount("/a:/b", "/a", "/b", ACCESS_READ);
	check_mount("/a:/b:ro", "/a", "/b", ACCESS_READ);
	check_mount("./a:/b:rw", "./a", "/b", ACCESS_WRITE);
	check_mount("a:b:/c", "a:b", "/c", ACCESS_READ);
	check_mount("a:rw:/c", "a:rw", "/c", ACCESS_READ);
	check_mount("/a:/ro", "/a", "/ro", ACCESS_READ);
	check_mount("/a:/b/rw:rw", "/a", "/b/rw", ACCESS_WRITE);
	check_mount("a b:/c d", "a b", "/c d", ACCESS_READ);
	assert_string_equal(access_name(ACCESS_READ), "ro");
	assert_string_equal(access_name(ACCESS_WRITE), "rw");
}

static void bad_mounts_are_refused(void **state)
{
	static const char *const bad[] = {
		"",        "/a",     ":",       ":ro",      ":/b",         "/a:",      "/a:ro",
		"/a:rw",   "/a:b",   "/a:b:rw", "/a:/b:xx", "/a:/b:ro:rw", "/a:/../b", "/a:/b/..",
		"/a:/./b", "/a:/b/", "/a://b",  "/a:/b//c", "/a:.",        "/a:/b:RW",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		_cleanup_(spec_freep) struct spec *s = spec_new();
		struct cay_error err = {0};

		if (spec_add_mount(s, bad[i], &err) == 0)
			fail_msg("'%s' was taken", bad[i]);
		check_invalid(-1, &err, "is not SRC:DEST[:ro|rw]");
		assert_non_null(strstr(err.text, bad[i]));
		assert_non_null(strstr(err.hint, "--volume"));
	}
}

static void mounts_are_bounded(void **state)
{
	_cleanup_(spec_freep) struct spec *s = spec_new();
	struct cay_error err = {0};
	char text[32];

	(void)state;
	for (int i = 0; i < SPEC_MOUNTS_MAX; i++) {
		(void)snprintf(text, sizeof(text), "/a:/b%d", i);
		assert_int_equal(spec_add_mount(s, text, &err), 0);
	}
	check_invalid(spec_add_mount(s, "/a:/c", &err), &err, "more than 32 mounts");
	assert_int_equal(s->n_mounts, SPEC_MOUNTS_MAX);
	assert_string_equal(s->mounts[SPEC_MOUNTS_MAX - 1].target, "/b31");
}

static void workspace_is_read(void **state)
{
	_cleanup_(spec_freep) struct spec *s = spec_new();
	struct cay_error err = {0};

	(void)state;
	assert_int_equal(spec_set_workspace(s, "dir", &err), 0);
	assert_string_equal(s->workspace.source, "dir");
	assert_string_equal(s->workspace.target, "/workspace");
	assert_int_equal(s->workspace.access, ACCESS_READ);
	/* The last one counts. */
	assert_int_equal(spec_set_workspace(s, "a:b:rw", &err), 0);
	assert_string_equal(s->workspace.source, "a:b");
	assert_int_equal(s->workspace.access, ACCESS_WRITE);
	assert_int_equal(spec_set_workspace(s, "/d:ro", &err), 0);
	assert_string_equal(s->workspace.source, "/d");
	assert_int_equal(s->workspace.access, ACCESS_READ);
	check_invalid(spec_set_workspace(s, "", &err), &err, "names no directory");
}

static void check_transfer(const char *text, const char *from, const char *to)
{
	struct transfers *t = calloc(1, sizeof(*t));
	struct cay_error err;

	assert_non_null(t);
	if (transfers_add(t, "--put", text, &err) < 0)
		fail_msg("%s", err.text);
	assert_int_equal(t->len, 1);
	assert_string_equal(t->items[0].from, from);
	if (to)
		assert_string_equal(t->items[0].to, to);
	else
		assert_null(t->items[0].to);
	free(t->items[0].from);
	free(t->items[0].to);
	free(t);
}

static void transfers_are_read(void **state)
{
	static const char *const bad[] = {"", ":", "a:", ":b", "a:b:"};
	_cleanup_(spec_freep) struct spec *s = spec_new();
	struct cay_error err = {0};

	(void)state;
	check_transfer("a", "a", NULL);
	check_transfer("a:b", "a", "b");
	check_transfer("a:b:c", "a:b", "c");
	check_transfer("*.csv:out/", "*.csv", "out/");
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		check_invalid(transfers_add(&s->get, "--get", bad[i], &err), &err,
			      "a name is missing");
	assert_non_null(strstr(err.text, "--get 'a:b:'"));
	for (size_t i = ARRAY_LEN(bad); i < SPEC_TRANSFERS_MAX; i++)
		assert_int_equal(transfers_add(&s->get, "--get", "x:y", &err), 0);
	check_invalid(transfers_add(&s->get, "--get", "x", &err), &err, "more than 256 --get");
	assert_int_equal(s->get.len, SPEC_TRANSFERS_MAX);
}

static void env_is_read(void **state)
{
	static const char *const bad[] = {"",      "=x",   "1A=x",       "A-B=x",
					  "A B=x", " A=x", "\xc3\xa4=x", "A.B"};
	_cleanup_(spec_freep) struct spec *s = spec_new();
	struct cay_error err = {0};

	(void)state;
	assert_int_equal(spec_add_env(s, "A=1", &err), 0);
	assert_int_equal(spec_add_env(s, "_b9=x=y", &err), 0);
	assert_int_equal(spec_add_env(s, "EMPTY=", &err), 0);
	assert_int_equal(spec_add_env(s, "A=2", &err), 0); /* the last one counts */
	assert_int_equal(s->env.len, 3);
	assert_string_equal(s->env.items[0], "A=2");
	assert_string_equal(s->env.items[1], "_b9=x=y");
	assert_string_equal(s->env.items[2], "EMPTY=");
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		check_invalid(spec_add_env(s, bad[i], &err), &err, "is no name of a variable");
	/* A secret behind the '=' is not repeated. */
	check_invalid(spec_add_env(s, "A-B=secret", &err), &err, "'A-B'");
	assert_null(strstr(err.text, "secret"));
	assert_int_equal(s->env.len, 3);
}

static void env_takes_the_callers_value(void **state)
{
	_cleanup_(spec_freep) struct spec *s = spec_new();
	struct cay_error err = {0};

	(void)state;
	(void)unsetenv(VARIABLE);
	assert_int_equal(spec_add_env(s, VARIABLE, &err), 0);
	assert_int_equal(s->env.len, 0);
	(void)setenv(VARIABLE, "mine", 1);
	assert_int_equal(spec_add_env(s, VARIABLE, &err), 0);
	(void)unsetenv(VARIABLE);
	assert_int_equal(s->env.len, 1);
	assert_string_equal(strv_get_env(&s->env, VARIABLE), "mine");
}

static void env_files_are_read(void **state)
{
	char text[] =
		"# a comment\n\nA=1\r\n  B=two words  \n\t# another\nC=#no comment\n \t\r\n" VARIABLE
		"\nE=last";
	char bad[] = "A=1\n\n9=x\nB=2\n", empty[] = "";
	_cleanup_(spec_freep) struct spec *s = spec_new();
	struct cay_error err = {0};

	(void)state;
	(void)setenv(VARIABLE, "mine", 1);
	if (spec_add_env_lines(s, "F", text, &err) < 0)
		fail_msg("%s", err.text);
	(void)unsetenv(VARIABLE);
	assert_int_equal(s->env.len, 5);
	assert_string_equal(s->env.items[0], "A=1");
	assert_string_equal(s->env.items[1], "B=two words  ");
	assert_string_equal(s->env.items[2], "C=#no comment");
	assert_string_equal(s->env.items[3], VARIABLE "=mine");
	assert_string_equal(s->env.items[4], "E=last");
	assert_int_equal(spec_add_env_lines(s, "F", empty, &err), 0);
	check_invalid(spec_add_env_lines(s, "my.env", bad, &err), &err,
		      "my.env:3: '9' is no name of a variable");
}

/* A carriage return ends a line only where the line ends. */
static void env_files_keep_bytes_within_lines(void **state)
{
	char text[] = "A=x\ry\r\n";
	_cleanup_(spec_freep) struct spec *s = spec_new();
	struct cay_error err = {0};

	(void)state;
	assert_int_equal(spec_add_env_lines(s, "F", text, &err), 0);
	assert_string_equal(s->env.items[0], "A=x\ry");
}

static void languages_are_read(void **state)
{
	_cleanup_(spec_freep) struct spec *s = spec_new();
	struct cay_error err = {0};

	(void)state;
	assert_int_equal(spec_set_language(s, "python@3.11", &err), 0);
	assert_string_equal(s->language->name, "python");
	assert_string_equal(s->version, "3.11");
	/* A later one without a version forgets the earlier's. */
	assert_int_equal(spec_set_language(s, "py", &err), 0);
	assert_string_equal(s->language->name, "python");
	assert_null(s->version);
	assert_int_equal(spec_set_language(s, "sh@1@2", &err), 0);
	assert_string_equal(s->language->name, "sh");
	assert_string_equal(s->version, "1@2");
	check_invalid(spec_set_language(s, "python@", &err), &err,
		      "a version is missing in 'python@'");
}

static void unknown_languages_are_refused(void **state)
{
	static const char *const bad[] = {"", "@3", "cobol", "Python", "python 3", "python3.11"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		_cleanup_(spec_freep) struct spec *s = spec_new();
		struct cay_error err = {0};

		assert_int_equal(spec_set_language(s, bad[i], &err), -1);
		assert_int_equal(err.code, CAY_E_RUNTIME);
		assert_non_null(strstr(err.text, "no language is called"));
		assert_non_null(strstr(err.hint, "cay runtimes"));
	}
}

static void engines_are_read(void **state)
{
	static const char *const bad[] = {"", "Native", "nativ", "native ", "qemu"};
	static const char *const containers[] = {"docker", "podman"};
	_cleanup_(spec_freep) struct spec *s = spec_new();
	struct cay_error err = {0};

	(void)state;
	assert_int_equal(spec_set_engine(s, "native", &err), 0);
	assert_int_equal(s->engine, ENGINE_NATIVE);
	assert_int_equal(spec_set_engine(s, "direct", &err), 0);
	assert_int_equal(s->engine, ENGINE_DIRECT);
	assert_int_equal(spec_set_engine(s, "auto", &err), 0);
	assert_int_equal(s->engine, ENGINE_AUTO);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		check_invalid(spec_set_engine(s, bad[i], &err), &err, "no engine is called");
		assert_non_null(strstr(err.hint, "auto, native, docker, podman, direct"));
	}
	assert_int_equal(s->engine, ENGINE_AUTO);
	assert_false(spec_engine_is_container(s->engine));
	for (size_t i = 0; i < ARRAY_LEN(containers); i++) {
		assert_int_equal(spec_set_engine(s, containers[i], &err), 0);
		assert_true(spec_engine_is_container(s->engine));
	}
}

static void workdirs_are_read(void **state)
{
	static const char *const bad[] = {"", "..", "a/../b", "/..", "/a/..", "//", "/a//b", "./a"};
	_cleanup_(spec_freep) struct spec *s = spec_new();
	struct cay_error err = {0};

	(void)state;
	assert_int_equal(spec_set_workdir(s, "/tmp", &err), 0);
	assert_string_equal(s->workdir, "/tmp");
	assert_int_equal(spec_set_workdir(s, "a/b", &err), 0);
	assert_string_equal(s->workdir, "/workspace/a/b");
	assert_int_equal(spec_set_workdir(s, "/", &err), 0);
	assert_string_equal(s->workdir, "/");
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		check_invalid(spec_set_workdir(s, bad[i], &err), &err,
			      "can't be a working directory");
}

static void limits_are_read(void **state)
{
	_cleanup_(spec_freep) struct spec *s = spec_new();
	struct cay_error err = {0};

	(void)state;
	assert_int_equal(spec_set_limit(s, "memory", "1g", &err), 0);
	assert_int_equal(s->limits.memory_bytes, 1 << 30);
	check_invalid(spec_set_limit(s, "memory", "0", &err), &err,
		      "the limit memory can't be '0'");
	check_invalid(spec_set_limit(s, "ram", "1g", &err), &err, "no limit is called 'ram'");
	assert_int_equal(s->limits.memory_bytes, 1 << 30);
}

static void check_path(const char *path, bool ok)
{
	if (island_path_ok(path) != ok)
		fail_msg("'%.80s' is %s", path, ok ? "refused" : "taken");
}

static void island_paths(void **state)
{
	char name[NAME_MAX + 3], path[PATH_MAX + 1];

	(void)state;
	check_path("/", true);
	check_path("/a", true);
	check_path("/a/b.c/..d/...", true);
	check_path("/.a", true);
	check_path("/a/.../b", true);
	check_path("/..a/b..", true);
	check_path("", false);
	check_path("a", false);
	check_path("a/b", false);
	check_path("/a/", false);
	check_path("//", false);
	check_path("//a", false);
	check_path("/a//b", false);
	check_path("/.", false);
	check_path("/..", false);
	check_path("/a/.", false);
	check_path("/a/..", false);
	check_path("/./a", false);
	check_path("/../a", false);
	check_path("/a/../b", false);
	memset(name, 'n', sizeof(name));
	name[0] = '/';
	name[NAME_MAX + 1] = '\0';
	check_path(name, true);
	name[NAME_MAX + 1] = 'n';
	name[NAME_MAX + 2] = '\0';
	check_path(name, false);
	for (size_t i = 0; i < PATH_MAX; i++)
		path[i] = i % 2 ? 'p' : '/';
	path[PATH_MAX] = '\0';
	check_path(path, false);
	path[PATH_MAX - 2] = '\0';
	check_path(path, true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mounts_are_read),
		cmocka_unit_test(bad_mounts_are_refused),
		cmocka_unit_test(mounts_are_bounded),
		cmocka_unit_test(workspace_is_read),
		cmocka_unit_test(transfers_are_read),
		cmocka_unit_test(env_is_read),
		cmocka_unit_test(env_takes_the_callers_value),
		cmocka_unit_test(env_files_are_read),
		cmocka_unit_test(env_files_keep_bytes_within_lines),
		cmocka_unit_test(languages_are_read),
		cmocka_unit_test(unknown_languages_are_refused),
		cmocka_unit_test(engines_are_read),
		cmocka_unit_test(workdirs_are_read),
		cmocka_unit_test(limits_are_read),
		cmocka_unit_test(island_paths),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
