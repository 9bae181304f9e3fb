/* Which interpreters there are, and which one a run gets. */
#include "runtime_support.h"

static void newest_comes_first(void **state)
{
	struct fixture *f = *state;
	struct runtimes r = {0};

	put_program(f, "usr/bin/python3.9", "3.9.18");
	put_program(f, "usr/bin/python3.12", "3.12.1");
	put_program(f, "usr/local/bin/python3.10", "3.10.13");
	put_program(f, "opt/a/bin/python3.13", "3.13.0rc1+");
	put_program(f, "opt/b/bin/python3.13", "3.13.0");
	put_program(f, "opt/c/bin/python3.10", "3.10.9");
	configure_path(f, "opt/a");
	configure_path(f, "opt/b");
	configure_path(f, "opt/c");
	find(f, &r);
	assert_int_equal(r.len, 6);
	assert_string_equal(r.items[0].version, "3.13.0");
	assert_string_equal(r.items[1].version, "3.13.0rc1+");
	assert_string_equal(r.items[2].version, "3.12.1");
	assert_string_equal(r.items[3].version, "3.10.13");
	assert_string_equal(r.items[4].version, "3.10.9");
	assert_string_equal(r.items[5].version, "3.9.18");
	assert_string_equal(r.items[0].program, in_tree(f, "opt/b/bin/python3.13"));
	assert_string_equal(r.items[0].root, in_tree(f, "opt/b"));
	assert_string_equal(r.items[0].source, CONF ":2");
	assert_string_equal(r.items[2].program, in_tree(f, "usr/bin/python3.12"));
	assert_string_equal(r.items[2].root, "");
	assert_string_equal(r.items[2].source, "host");
	assert_ptr_equal(r.items[2].language, f->python);
	runtimes_done(&r);
}

static void only_the_row_s_names_count(void **state)
{
	struct fixture *f = *state;
	struct runtimes r = {0};

	put_program(f, "usr/bin/python3.11-config", "3.11.2");
	put_program(f, "usr/bin/python3.11m", "3.11.2");
	put_program(f, "usr/bin/python3.", "3.11.2");
	put_program(f, "usr/bin/python2.7", "2.7.18");
	put_bytes(f, "usr/bin/python3.8", "\0003.8.1", 7, 0644); /* not executable */
	make_dirs(f, "usr/bin/python3.7/");
	put_link(f, "nowhere", "usr/bin/python3.6");
	find(f, &r);
	assert_int_equal(r.len, 0);
	runtimes_done(&r);
	put_program(f, "usr/bin/python3.11", "3.11.2");
	assert_string_equal(choose(f, NULL), "3.11.2");
}

static void a_link_counts_once_and_names_the_file(void **state)
{
	struct fixture *f = *state;
	struct runtimes r = {0};

	put_program(f, "usr/bin/python3.31", "3.31.4"); /* beyond the numbers that are tried */
	put_link(f, "python3.31", "usr/bin/python3");
	put_link(f, f->bin, "usr/local/link");
	put_link(f, "../link/python3.31", "usr/local/bin/python3");
	find(f, &r);
	assert_int_equal(r.len, 1);
	assert_string_equal(r.items[0].version, "3.31.4");
	runtimes_done(&r);
}

static void links_must_stay_where_an_island_sees_them(void **state)
{
	struct fixture *f = *state;

	put_program(f, "opt/secret/python3.12", "3.12.1");
	put_full_link(f, "opt/secret/python3.12", "usr/bin/python3.12");
	put_program(f, "usr-not/python3.11", "3.11.2");
	put_link(f, "../../usr-not/python3.11", "usr/bin/python3.11");
	assert_int_equal(access(in_tree(f, "usr/bin/python3.11"), X_OK), 0);
	assert_string_equal(choose(f, NULL), "no python found");

	/* By way of /etc/alternatives: usable, but not by the link. */
	put_program(f, "usr/lib/py/python3.10", "3.10.13");
	put_full_link(f, "usr/lib/py/python3.10", "etc/alternatives/python3.10");
	put_link(f, "../../etc/alternatives/python3.10", "usr/bin/python3.10");
	assert_string_equal(choose(f, NULL), "3.10.13");
	assert_string_equal(f->chosen.program, in_tree(f, "usr/lib/py/python3.10"));

	/* Within: called by its own name. */
	put_program(f, "usr/lib/py/python3.13", "3.13.0");
	put_link(f, "../lib/py/python3.13", "usr/bin/python3.13");
	assert_string_equal(choose(f, NULL), "3.13.0");
	assert_string_equal(f->chosen.program, in_tree(f, "usr/bin/python3.13"));
}

static void a_venv_is_called_by_its_own_name(void **state)
{
	struct fixture *f = *state;

	put_program(f, "usr/bin/python3.11", "3.11.2");
	put_full_link(f, "usr/bin/python3.11", "srv/venv/bin/python3");
	put_link(f, "python3", "srv/venv/bin/python3.11");
	configure_path(f, "srv/venv");
	/* Of two equal ones, that which was named. */
	assert_string_equal(choose(f, "3.11"), "3.11.2");
	assert_string_equal(f->chosen.program, in_tree(f, "srv/venv/bin/python3.11"));
	assert_string_equal(f->chosen.root, in_tree(f, "srv/venv"));
}

static void named_directories(void **state)
{
	struct fixture *f = *state;

	put_program(f, "opt/flat/python3.10", "3.10.13");
	put_link(f, "flat", "opt/link");
	configure_path(f, "opt/link");
	assert_string_equal(choose(f, "3.10"), "3.10.13");
	assert_string_equal(f->chosen.root, in_tree(f, "opt/flat"));
	assert_string_equal(f->chosen.program, in_tree(f, "opt/flat/python3.10"));

	/* Inside /usr there is nothing to bind. */
	put_program(f, "usr/lib/py39/bin/python3.9", "3.9.18");
	configure_path(f, "usr/lib/py39");
	assert_string_equal(choose(f, "3.9"), "3.9.18");
	assert_string_equal(f->chosen.root, "");
	assert_string_equal(f->chosen.source, CONF ":2");
}

static void a_named_directory_must_be_there(void **state)
{
	struct fixture *f = *state;
	char expected[PATH_MAX * 2];

	put_program(f, "usr/bin/python3.12", "3.12.1");
	configure_path(f, "opt/gone");
	(void)snprintf(expected, sizeof(expected),
		       "[language python] path = %s (" CONF ":2): No such file or directory",
		       in_tree(f, "opt/gone"));
	assert_string_equal(choose(f, NULL), expected);
	assert_int_equal(f->err.code, CAY_E_INVALID);
	assert_int_equal(f->err.sys_errno, ENOENT);
}

static void a_named_directory_must_have_a_program(void **state)
{
	struct fixture *f = *state;
	char expected[PATH_MAX * 2];

	put_program(f, "usr/bin/python3.12", "3.12.1");
	put_program(f, "opt/elsewhere/python3.11", "3.11.2");
	put_full_link(f, "opt/elsewhere/python3.11", "opt/empty/bin/python3.11");
	configure_path(f, "opt/empty");
	(void)snprintf(expected, sizeof(expected),
		       "[language python] path = %s (" CONF
		       ":2): no program python3.* in it that can be used",
		       in_tree(f, "opt/empty"));
	assert_string_equal(choose(f, NULL), expected);
	assert_int_equal(f->err.code, CAY_E_INVALID);
	assert_non_null(strstr(f->err.hint, "bin/python3.*"));
}

static void without_a_version_the_preferred_one(void **state)
{
	struct fixture *f = *state;

	put_program(f, "usr/bin/python3.9", "3.9.18");
	put_program(f, "usr/bin/python3.10", "3.10.13");
	assert_string_equal(choose(f, NULL), "3.10.13");
	assert_string_equal(f->chosen.default_reason, "newest");
	put_program(f, "usr/bin/python3.12", "3.12.1");
	put_program(f, "usr/bin/python3.13", "3.13.0");
	assert_string_equal(choose(f, NULL), "3.12.1");
	assert_string_equal(f->chosen.default_reason, "preferred");
	assert_string_equal(choose(f, "3.13"), "3.13.0");
	assert_null(f->chosen.default_reason);

	configure(f, "[language python]\nprefer = 3.9\n");
	assert_string_equal(choose(f, NULL), "3.9.18");
	assert_string_equal(f->chosen.default_reason, "preferred");
	configure(f, "[language python]\nprefer = 3.1\n");
	assert_string_equal(choose(f, NULL), "3.13.0");
	assert_string_equal(f->chosen.default_reason, "newest");
}

static void a_version_is_a_prefix_on_dots(void **state)
{
	struct fixture *f = *state;

	put_program(f, "usr/bin/python3.9", "3.9.18");
	put_program(f, "usr/bin/python3.11", "3.11.2");
	put_program(f, "usr/bin/python3.12", "3.12.10");
	put_program(f, "usr/bin/python3.14", "3.14.0rc1");
	put_program(f, "usr/bin/python3.15", "3.15.0+");
	assert_string_equal(choose(f, "3"), "3.15.0+");
	assert_string_equal(choose(f, "3.11"), "3.11.2");
	assert_string_equal(choose(f, "3.11.2"), "3.11.2");
	assert_string_equal(choose(f, "3.15.0"), "3.15.0+");
	assert_string_equal(choose(f, "3.14"), "3.14.0rc1");
	(void)choose(f, "3.1");
	assert_int_equal(f->err.code, CAY_E_RUNTIME);
	(void)choose(f, "3.12.1");
	assert_int_equal(f->err.code, CAY_E_RUNTIME);
	(void)choose(f, "3.14.0");
	assert_int_equal(f->err.code, CAY_E_RUNTIME);
	(void)choose(f, "3.11.2.1");
	assert_int_equal(f->err.code, CAY_E_RUNTIME);
}

static void what_is_no_version_is_refused(void **state)
{
	static const char *const wrong[] = {
		"",     "latest",
		"3.",   ".3",
		"3..1", "3.x",
		"v3",   "3.11 ",
		"-3",   "3.1*",
		"../3", "3.12rc",
		"3\n",  "3.1111111111111111111111111111111",
	};
	struct fixture *f = *state;

	put_program(f, "usr/bin/python3.11", "3.11.2");
	for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
		(void)choose(f, wrong[i]);
		assert_int_equal(f->err.code, CAY_E_INVALID);
	}
	assert_string_equal(choose(f, "latest"),
			    "'latest' is no version of python: digits and dots, as in 3.12");
}

static void errors_say_what_there_is(void **state)
{
	static const char hint[] = "cay image pull python:3.12-slim, install the Debian package "
				   "python3, or name a directory: [language python] path = DIR in "
				   "/etc/cay/cay.conf";
	struct fixture *f = *state;

	assert_string_equal(choose(f, NULL), "no python found");
	assert_int_equal(f->err.code, CAY_E_RUNTIME);
	assert_string_equal(f->err.hint, hint);
	assert_string_equal(choose(f, "3.10"), "no python found");

	put_program(f, "usr/bin/python3.11", "3.11.2");
	assert_string_equal(choose(f, "3.10"), "python 3.10 is not here; there is 3.11.2");
	put_program(f, "usr/bin/python3.12", "3.12.1");
	put_program(f, "usr/bin/python3.9", "3.9.18");
	put_program(f, "opt/bin/python3.12", "3.12.1");
	configure_path(f, "opt");
	assert_string_equal(choose(f, "3.10"),
			    "python 3.10 is not here; there are 3.9.18, 3.11.2, 3.12.1");
	assert_int_equal(f->err.code, CAY_E_RUNTIME);
	assert_non_null(strstr(f->err.hint, "cay image pull python:3.10-slim, install"));
}

static void a_language_without_versions(void **state)
{
	struct fixture *f = *state;

	f->python = language_find("sh");
	assert_string_equal(choose(f, NULL), "no sh found");
	put_program(f, "usr/bin/dash", "0.5.12");
	put_link(f, "dash", "usr/bin/sh");
	assert_string_equal(choose(f, NULL), "");
	assert_string_equal(f->chosen.program, in_tree(f, "usr/bin/sh"));
	assert_string_equal(f->chosen.default_reason, "first found");
	put_program(f, "usr/local/bin/sh", "1");
	assert_string_equal(choose(f, NULL), "");
	assert_string_equal(f->chosen.program, in_tree(f, "usr/local/bin/sh"));
	assert_string_equal(choose(f, "5"), "sh has no versions to choose from");
	assert_int_equal(f->err.code, CAY_E_RUNTIME);
}

static void a_language_that_runs_on_another(void **state)
{
	struct fixture *f = *state;

	f->python = language_find("typescript");
	assert_string_equal(choose(f, NULL), "no node found, which typescript runs on");
	assert_string_equal(f->err.hint,
			    "install the Debian packages nodejs esbuild, or name a directory: "
			    "[language javascript] path = DIR in /etc/cay/cay.conf");
	PUT(f, "usr/bin/esbuild", "x");
	NODE(f, "usr/bin/node", "18.20.4");
	NODE(f, "opt/node20/bin/node", "20.20.2");
	NODE(f, "opt/node22/bin/node", "22.23.3");
	assert_string_equal(choose(f, NULL), "18.20.4");
	assert_ptr_equal(f->chosen.language, f->python);
	f->python = language_find("javascript");
	configure_path(f, "opt/node20");
	configure_path(f, "opt/node22");
	f->python = language_find("typescript");
	assert_string_equal(choose(f, "22"), "22.23.3");
	assert_string_equal(f->chosen.root, in_tree(f, "opt/node22"));
	assert_string_equal(choose(f, NULL), "20.20.2");
	assert_string_equal(f->chosen.default_reason, "preferred");
	configure(f, "[language javascript]\nprefer = 18\n");
	assert_string_equal(choose(f, NULL), "18.20.4");
	configure(f, "[language typescript]\nprefer = 22\n");
	assert_string_equal(choose(f, NULL), "22.23.3");
	assert_string_equal(choose(f, "17"),
			    "typescript 17 is not here; there are 18.20.4, 20.20.2, 22.23.3");

	/* Its own directories count as well, but not for the other. */
	NODE(f, "opt/node24/bin/node", "24.1.0");
	configure_path(f, "opt/node24");
	assert_string_equal(choose(f, "24"), "24.1.0");
	f->python = language_find("javascript");
	assert_string_equal(choose(f, "24"),
			    "javascript 24 is not here; there are 18.20.4, 20.20.2, 22.23.3");
	assert_string_equal(f->chosen.tool, in_tree(f, "usr/bin/esbuild")); /* of the one before */
	assert_string_equal(choose(f, NULL), "18.20.4");
	assert_string_equal(f->chosen.tool, "");
}

static void a_tool_is_beside_or_on_the_host(void **state)
{
	struct fixture *f = *state;

	f->python = language_find("typescript");
	NODE(f, "usr/bin/node", "20.20.2");
	PUT(f, "usr/bin/esbuild", "x");
	assert_string_equal(choose(f, NULL), "20.20.2");
	assert_string_equal(f->chosen.tool, in_tree(f, "usr/bin/esbuild"));
	PUT(f, "usr/local/bin/esbuild", "x");
	assert_string_equal(choose(f, NULL), "20.20.2");
	assert_string_equal(f->chosen.tool, in_tree(f, "usr/bin/esbuild"));
	NODE(f, "opt/node/bin/node", "20.20.3");
	configure_path(f, "opt/node");
	assert_string_equal(choose(f, NULL), "20.20.3");
	assert_string_equal(f->chosen.tool, in_tree(f, "usr/local/bin/esbuild"));
	/* A link that leads elsewhere is none, and what can't be executed is none. */
	PUT(f, "secret/esbuild", "x");
	put_full_link(f, "secret/esbuild", "opt/node/bin/esbuild");
	assert_string_equal(choose(f, NULL), "20.20.3");
	assert_string_equal(f->chosen.tool, in_tree(f, "usr/local/bin/esbuild"));
	assert_int_equal(unlink(in_tree(f, "opt/node/bin/esbuild")), 0);
	put_bytes(f, "opt/node/bin/esbuild", "x", 1, 0644);
	assert_string_equal(choose(f, NULL), "20.20.3");
	assert_string_equal(f->chosen.tool, in_tree(f, "usr/local/bin/esbuild"));
	assert_int_equal(chmod(in_tree(f, "opt/node/bin/esbuild"), 0755), 0);
	assert_string_equal(choose(f, NULL), "20.20.3");
	assert_string_equal(f->chosen.tool, in_tree(f, "opt/node/bin/esbuild"));
}

static void what_works_without_its_tool(void **state)
{
	struct fixture *f = *state;
	struct runtimes r = {0};
	char expected[PATH_MAX * 2];

	f->python = language_find("typescript");
	NODE(f, "usr/bin/node", "20.20.2");
	(void)snprintf(expected, sizeof(expected),
		       "no esbuild found, which typescript needs with %s, version 20.20.2",
		       in_tree(f, "usr/bin/node"));
	assert_string_equal(choose(f, NULL), expected);
	assert_int_equal(f->err.code, CAY_E_RUNTIME);
	assert_non_null(strstr(f->err.hint, "packages nodejs esbuild, or name a directory that "
					    "has esbuild too: [language javascript] path"));
	/* 20 is preferred, but can't be used. */
	NODE(f, "opt/a/bin/node", "22.6.0");
	NODE(f, "opt/b/bin/node", "22.7.0");
	configure_path(f, "opt/a");
	configure_path(f, "opt/b");
	assert_string_equal(choose(f, NULL), "22.7.0");
	assert_string_equal(f->chosen.tool, "");
	assert_string_equal(f->chosen.default_reason, "newest");
	assert_string_equal(choose(f, "22"), "22.7.0");
	assert_string_equal(choose(f, "20"), expected);
	(void)choose(f, "22.6");
	assert_int_equal(f->err.code, CAY_E_RUNTIME);
	find(f, &r);
	assert_int_equal(r.len, 3);
	assert_null(r.items[0].lacks);
	assert_string_equal(r.items[1].lacks, "esbuild");
	assert_string_equal(r.items[2].lacks, "esbuild");
	runtimes_done(&r);
}

static void jdks_side_by_side(void **state)
{
	struct fixture *f = *state;
	struct runtimes r = {0};

	f->python = language_find("java");
	put_java(f, JDK("11"), "11.0.22");
	put_java(f, JDK("17"), "17.0.21");
	put_java(f, JDK("21"), "21.0.2");
	PUT(f, JDK("11") "/bin/javac", "x");
	PUT(f, JDK("17") "/bin/javac", "x");
	put_link(f, "java-17-openjdk-" ARCH, "usr/lib/jvm/java-1.17.0-openjdk-" ARCH);
	put_full_link(f, JDK("17") "/bin/java", "etc/alternatives/java");
	put_full_link(f, "etc/alternatives/java", "usr/bin/java");
	put_full_link(f, JDK("17") "/bin/javac", "etc/alternatives/javac");
	put_full_link(f, "etc/alternatives/javac", "usr/bin/javac");
	find(f, &r);
	assert_int_equal(r.len, 3);
	runtimes_done(&r);
	/* 21 is a JRE, and the javac of another makes classes that it may not be able to run. */
	assert_string_equal(choose(f, NULL), "17.0.21");
	assert_string_equal(f->chosen.program, in_tree(f, JDK("17") "/bin/java"));
	assert_string_equal(f->chosen.tool, in_tree(f, JDK("17") "/bin/javac"));
	assert_string_equal(f->chosen.source, "host");
	assert_string_equal(f->chosen.root, "");
	assert_string_equal(choose(f, "11"), "11.0.22");
	assert_string_equal(f->chosen.tool, in_tree(f, JDK("11") "/bin/javac"));
	(void)choose(f, "21");
	assert_int_equal(f->err.code, CAY_E_RUNTIME);
	assert_non_null(strstr(f->err.text, "no javac found, which java needs with "));
	assert_non_null(strstr(f->err.hint, "package default-jdk-headless, or"));
}

/* gcc-12 is a link to a name with the machine in it; gcc is the same file once more. */
static void a_name_s_number_counts_whatever_it_links_to(void **state)
{
	struct fixture *f = *state;
	struct runtimes r = {0};

	f->python = language_find("c");
	PUT(f, "usr/bin/x86_64-linux-gnu-gcc-12", "\00012.2.0\0");
	put_link(f, "x86_64-linux-gnu-gcc-12", "usr/bin/gcc-12");
	put_link(f, "gcc-12", "usr/bin/gcc");
	find(f, &r);
	assert_int_equal(r.len, 1);
	assert_string_equal(r.items[0].version, "12.2.0");
	assert_string_equal(r.items[0].program, in_tree(f, "usr/bin/gcc-12"));
	runtimes_done(&r);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(newest_comes_first),
		TEST(only_the_row_s_names_count),
		TEST(a_link_counts_once_and_names_the_file),
		TEST(links_must_stay_where_an_island_sees_them),
		TEST(a_venv_is_called_by_its_own_name),
		TEST(named_directories),
		TEST(a_named_directory_must_be_there),
		TEST(a_named_directory_must_have_a_program),
		TEST(without_a_version_the_preferred_one),
		TEST(a_version_is_a_prefix_on_dots),
		TEST(what_is_no_version_is_refused),
		TEST(errors_say_what_there_is),
		TEST(a_language_without_versions),
		TEST(a_language_that_runs_on_another),
		TEST(a_tool_is_beside_or_on_the_host),
		TEST(what_works_without_its_tool),
		TEST(jdks_side_by_side),
		TEST(a_name_s_number_counts_whatever_it_links_to),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
