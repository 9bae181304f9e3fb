#include "policy/mounts.h"

#include "base/attr.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static void parse(struct settings *s, const char *text)
{
	struct cay_error err;

	settings_init(s);
	if (settings_parse(s, "F", text, &err) < 0)
		fail_msg("%s", err.text);
}

/* The rules of a machine with the homes given (up to three, NULL: fewer). */
static void make(struct mount_rules *ret, const char *text, const char *own_dir, const char *home1,
		 const char *home2, const char *home3)
{
	const char *const names[] = {home1, home2, home3};
	_cleanup_(settings_done) struct settings s;
	_cleanup_(strv_done) struct strv homes = {0};
	struct cay_error err;

	parse(&s, text);
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (names[i])
			assert_int_equal(strv_add(&homes, names[i]), 0);
	if (mount_rules_make(&s, &homes, own_dir, ret, &err) < 0)
		fail_msg("%s", err.text);
}

static void check_allowed(const struct mount_rules *r, const char *path, enum access access)
{
	struct cay_error err = {0};

	if (mount_check(r, path, access, &err) < 0)
		fail_msg("%s", err.text);
}

static void check_refused(const struct mount_rules *r, const char *path, enum access access,
			  const char *message)
{
	struct cay_error err = {0};

	if (mount_check(r, path, access, &err) == 0)
		fail_msg("%s %s is allowed", path, access_name(access));
	assert_int_equal(err.code, CAY_E_POLICY);
	assert_string_equal(err.text, message);
}

static void check_forbidden(const struct mount_rules *r, const char *path)
{
	char message[256];
	struct cay_error err = {0};

	(void)snprintf(message, sizeof(message), "mount of %s is forbidden", path);
	check_refused(r, path, ACCESS_READ, message);
	check_refused(r, path, ACCESS_WRITE, message);
	assert_int_equal(mount_check_forbidden(r, path, &err), -1);
	assert_int_equal(err.code, CAY_E_POLICY);
	assert_non_null(strstr(err.hint, "and all below it never appear"));
}

static void check_holds(const struct mount_rules *r, const char *path)
{
	struct cay_error err = {0};

	if (mount_check(r, path, ACCESS_READ, &err) == 0)
		fail_msg("%s is allowed", path);
	assert_int_equal(err.code, CAY_E_POLICY);
	if (!strstr(err.text, "is forbidden: it holds "))
		fail_msg("'%s' does not say what %s holds", err.text, path);
	assert_non_null(strstr(err.hint, "further down"));
}

static void within(void **state)
{
	(void)state;
	assert_true(path_is_within("/a", "/a"));
	assert_true(path_is_within("/a/b", "/a"));
	assert_true(path_is_within("/a/b/c", "/a"));
	assert_true(path_is_within("/", "/"));
	assert_true(path_is_within("/a", "/"));
	assert_false(path_is_within("/ab", "/a"));
	assert_false(path_is_within("/a", "/ab"));
	assert_false(path_is_within("/a", "/a/b"));
	assert_false(path_is_within("/", "/a"));
	assert_false(path_is_within("/b/a", "/a"));
	assert_false(path_is_within("/a.b", "/a"));
}

/* Nothing opens what is built in: not even a list that allows all. */
static void built_in_list_holds(void **state)
{
	static const char *const paths[] = {
		"/etc/shadow",
		"/etc/gshadow",
		"/etc/passwd",
		"/etc/sudoers",
		"/etc/sudoers.d",
		"/root",
		"/proc",
		"/sys",
		"/dev",
		"/run/docker.sock",
		"/var/run/docker.sock",
		"/run/containerd",
		"/run/podman",
		"/run/cay",
		"/home/u/.ssh",
		"/home/u/.aws",
		"/home/u/.gnupg",
		"/home/u/.config",
		"/srv/w/.ssh",
		"/srv/w/.config",
	};
	static const char *const above[] = {"/",     "/etc",    "/run", "/var",  "/var/run",
					    "/home", "/home/u", "/srv", "/srv/w"};
	_cleanup_(mount_rules_done) struct mount_rules r;

	(void)state;
	make(&r, "[mounts]\nread=/\nwrite=/\n", NULL, "/root", "/home/u", "/srv/w");
	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		char below[128];

		check_forbidden(&r, paths[i]);
		(void)snprintf(below, sizeof(below), "%s/x", paths[i]);
		check_forbidden(&r, below);
	}
	for (size_t i = 0; i < ARRAY_LEN(above); i++)
		check_holds(&r, above[i]);
}

static void components_have_borders(void **state)
{
	static const char *const near[] = {
		"/etc/shadow2",  "/etc/shado",  "/etc/shadow.bak", "/rootless",    "/roo",
		"/process",      "/syslog",     "/devel",          "/run/cayenne", "/home/u/.sshd",
		"/home/u/.ss",   "/home/u/ssh", "/home/u/x/.ssh",  "/home/v/.ssh", "/home/uu/.aws",
		"/x/etc/shadow", "/home/u2",
	};
	_cleanup_(mount_rules_done) struct mount_rules r;

	(void)state;
	make(&r, "[mounts]\nwrite=/\n", NULL, "/home/u", NULL, NULL);
	for (size_t i = 0; i < ARRAY_LEN(near); i++)
		check_allowed(&r, near[i], ACCESS_WRITE);
}

static void homes_with_trailing_slashes(void **state)
{
	_cleanup_(mount_rules_done) struct mount_rules r;

	(void)state;
	make(&r, "[mounts]\nwrite=/\nforbid=~/keys/\nforbid=/f/\n", NULL, "/home/a/", "/home/b//",
	     "/");
	check_forbidden(&r, "/home/a/.ssh");
	check_forbidden(&r, "/home/b/.ssh");
	check_forbidden(&r, "/.ssh");
	check_forbidden(&r, "/.config/x");
	check_forbidden(&r, "/home/a/keys");
	check_forbidden(&r, "/home/b/keys/x");
	check_forbidden(&r, "/keys");
	check_forbidden(&r, "/f");
	check_forbidden(&r, "/f/x");
	check_holds(&r, "/home/a");
	check_allowed(&r, "/home/a/data", ACCESS_WRITE);
	check_allowed(&r, "/srv", ACCESS_WRITE);
}

/* What mounts.h promises of every rule, whatever a home is called. */
static void rules_are_absolute(void **state)
{
	_cleanup_(mount_rules_done) struct mount_rules r;
	const struct strv *lists[] = {&r.read, &r.write, &r.forbid, &r.operators};

	(void)state;
	make(&r,
	     "[mounts]\nread=/a/\nread=~/\nwrite=~/w/\nforbid=~/f\n[language python]\npath=/opt/p/\n",
	     "/cwd", "/home/a/", "/", NULL);
	for (size_t k = 0; k < ARRAY_LEN(lists); k++) {
		assert_true(lists[k]->len > 0);
		for (size_t i = 0; i < lists[k]->len; i++) {
			const char *path = lists[k]->items[i];
			size_t len = strlen(path);

			if (path[0] != '/' || (len > 1 && path[len - 1] == '/'))
				fail_msg("list %zu has the rule '%s'", k, path);
		}
	}
}

/* A doubled slash in passwd does not open a door. */
static void homes_with_doubled_slashes(void **state)
{
	_cleanup_(mount_rules_done) struct mount_rules r;

	(void)state;
	make(&r, "[mounts]\nwrite=/\n", NULL, "/home//a", "//b", "/home/./c");
	check_forbidden(&r, "/home/a/.ssh");
	check_forbidden(&r, "/b/.ssh");
	check_forbidden(&r, "/home/c/.ssh");
}

/*
 * An account that lives in / (systemd's do) must not make "~/" in a list of
 * what is allowed mean everything.
 */
static void home_of_nobody_opens_nothing(void **state)
{
	_cleanup_(mount_rules_done) struct mount_rules r;

	(void)state;
	make(&r, "[mounts]\nread=~/\n", NULL, "/home/a", "/", NULL);
	check_allowed(&r, "/home/a/data", ACCESS_READ);
	check_refused(&r, "/srv/data", ACCESS_READ, "mount of /srv/data is not allowed");
}

static void tilde_means_every_home(void **state)
{
	_cleanup_(mount_rules_done) struct mount_rules r;

	(void)state;
	make(&r, "[mounts]\nread=~/r\nwrite=~/w/\nforbid=~/w/secret\n", NULL, "/home/a", "/home/b/",
	     NULL);
	check_allowed(&r, "/home/a/r", ACCESS_READ);
	check_allowed(&r, "/home/b/r/x", ACCESS_READ);
	check_allowed(&r, "/home/a/w/x", ACCESS_WRITE);
	check_allowed(&r, "/home/b/w/x", ACCESS_READ);
	check_refused(&r, "/home/c/r", ACCESS_READ, "mount of /home/c/r is not allowed");
	check_forbidden(&r, "/home/a/w/secret");
	check_forbidden(&r, "/home/b/w/secret/x");
	check_holds(&r, "/home/b/w");
	/* A machine without homes has no such rules, and keeps the others. */
	mount_rules_done(&r);
	make(&r, "[mounts]\nread=~/r\n", NULL, NULL, NULL, NULL);
	assert_int_equal(r.read.len, 0);
	check_forbidden(&r, "/etc/shadow");
}

static void lists_decide(void **state)
{
	_cleanup_(mount_rules_done) struct mount_rules r;

	(void)state;
	make(&r, "[mounts]\nread=/r\nread=/r2\nwrite=/w\nforbid=/w/no\n", NULL, "/home/u", NULL,
	     NULL);
	check_allowed(&r, "/r", ACCESS_READ);
	check_allowed(&r, "/r/x", ACCESS_READ);
	check_allowed(&r, "/r2/x/y", ACCESS_READ);
	check_allowed(&r, "/w/x", ACCESS_WRITE);
	check_allowed(&r, "/w/x", ACCESS_READ);
	check_refused(&r, "/r/x", ACCESS_WRITE, "/r/x may only be mounted read-only");
	check_refused(&r, "/rx", ACCESS_READ, "mount of /rx is not allowed");
	check_refused(&r, "/wx", ACCESS_WRITE, "mount of /wx is not allowed");
	check_refused(&r, "/other", ACCESS_READ, "mount of /other is not allowed");
	/* Above an allowed one is not allowed. */
	check_refused(&r, "/", ACCESS_READ, "mount of / is forbidden: it holds /etc/shadow");
	check_forbidden(&r, "/w/no");
	check_forbidden(&r, "/w/no/x");
	check_holds(&r, "/w");
	check_allowed(&r, "/w/not", ACCESS_WRITE);
}

/* Settings that say nothing allow nothing. */
static void default_is_none(void **state)
{
	_cleanup_(mount_rules_done) struct mount_rules r;

	(void)state;
	make(&r, "", NULL, "/home/u", NULL, NULL);
	assert_int_equal(r.read.len + r.write.len + r.operators.len, 0);
	check_refused(&r, "/srv", ACCESS_READ, "mount of /srv is not allowed");
	check_refused(&r, "/srv", ACCESS_WRITE, "mount of /srv is not allowed");
}

static void own_directory_may_be_read(void **state)
{
	_cleanup_(mount_rules_done) struct mount_rules r;

	(void)state;
	make(&r, "", "/home/u/project", "/home/u", NULL, NULL);
	check_allowed(&r, "/home/u/project", ACCESS_READ);
	check_allowed(&r, "/home/u/project/x", ACCESS_READ);
	check_refused(&r, "/home/u/project", ACCESS_WRITE,
		      "/home/u/project may only be mounted read-only");
	check_refused(&r, "/home/u/project2", ACCESS_READ,
		      "mount of /home/u/project2 is not allowed");
	/* Standing in a forbidden one, or above one, does not open it. */
	mount_rules_done(&r);
	make(&r, "", "/home/u", "/home/u", NULL, NULL);
	check_holds(&r, "/home/u");
	check_forbidden(&r, "/home/u/.ssh");
	check_allowed(&r, "/home/u/x", ACCESS_READ);
}

static void operators_directories_are_apart(void **state)
{
	_cleanup_(mount_rules_done) struct mount_rules r;

	(void)state;
	make(&r, "[language python]\npath=/opt/py/\npath=/opt/py2\n[language sh]\npath=/opt/sh\n",
	     NULL, "/home/u", NULL, NULL);
	assert_int_equal(r.operators.len, 3);
	assert_string_equal(r.operators.items[0], "/opt/py");
	assert_string_equal(r.operators.items[1], "/opt/py2");
	assert_string_equal(r.operators.items[2], "/opt/sh");
	/* They are for runtimes, not for requests. */
	check_refused(&r, "/opt/py", ACCESS_READ, "mount of /opt/py is not allowed");
}

static void check_hint(const struct mount_rules *r, const char *path, enum access access,
		       const char *hint)
{
	struct cay_error err = {0};

	assert_int_equal(mount_check(r, path, access, &err), -1);
	assert_string_equal(err.hint, hint);
}

static void hints_name_the_setting(void **state)
{
	_cleanup_(mount_rules_done) struct mount_rules r;

	(void)state;
	make(&r, "[mounts]\nread=/r\nforbid=/f/x\n", NULL, "/home/u", NULL, NULL);
	check_hint(&r, "/d", ACCESS_READ,
		   "to allow it: [mounts] read = /d in the settings (`cay config path`)");
	check_hint(&r, "/d", ACCESS_WRITE,
		   "to allow it: [mounts] write = /d in the settings (`cay config path`)");
	check_hint(&r, "/r/d", ACCESS_WRITE,
		   "to allow writing: [mounts] write = /r/d in the settings");
	check_hint(&r, "/f/x/y", ACCESS_READ, "/f/x and all below it never appear on an island");
	check_hint(&r, "/home/u/.ssh/id", ACCESS_READ,
		   "/home/u/.ssh and all below it never appear on an island");
	check_hint(&r, "/f", ACCESS_READ, "mount a directory further down instead");
}

/* What a hint says to write into the settings does allow it. */
static void hints_work(void **state)
{
	_cleanup_(mount_rules_done) struct mount_rules r;

	(void)state;
	make(&r, "[mounts]\nread = /d\n", NULL, "/home/u", NULL, NULL);
	check_allowed(&r, "/d", ACCESS_READ);
	check_refused(&r, "/d", ACCESS_WRITE, "/d may only be mounted read-only");
	mount_rules_done(&r);
	make(&r, "[mounts]\nread = /d\nwrite = /d\n", NULL, "/home/u", NULL, NULL);
	check_allowed(&r, "/d", ACCESS_WRITE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(within),
		cmocka_unit_test(built_in_list_holds),
		cmocka_unit_test(components_have_borders),
		cmocka_unit_test(homes_with_trailing_slashes),
		cmocka_unit_test(homes_with_doubled_slashes),
		cmocka_unit_test(rules_are_absolute),
		cmocka_unit_test(home_of_nobody_opens_nothing),
		cmocka_unit_test(tilde_means_every_home),
		cmocka_unit_test(lists_decide),
		cmocka_unit_test(default_is_none),
		cmocka_unit_test(own_directory_may_be_read),
		cmocka_unit_test(operators_directories_are_apart),
		cmocka_unit_test(hints_name_the_setting),
		cmocka_unit_test(hints_work),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
