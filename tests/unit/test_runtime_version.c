/* The versions of interpreters, which nobody asks. */
#include "runtime_support.h"

static void versions_in_bytes(void **state)
{
	struct fixture *f = *state;

	f->places.cache_dir = NULL;
	PUT(f, "usr/bin/python3.11", "x\0003.2.0\0003.11.2\0y");
	assert_string_equal(choose(f, "3.11"), "3.11.2");
	/* At the very beginning, and twice the same. */
	PUT(f, "usr/bin/python3.11", "3.11.3\0\0003.11.3\0");
	assert_string_equal(choose(f, "3.11"), "3.11.3");
	/* No string of its own: a linker made it the end of another. */
	PUT(f, "usr/bin/python3.11", "\0/versions/3.11.4/lib\0/versions/3.11.5\0Python-3.11.5\0");
	assert_string_equal(choose(f, "3.11"), "3.11.5");
	/* One of its own wins over ends. */
	PUT(f, "usr/bin/python3.11", "\0/versions/3.11.5\0003.11.6\0");
	assert_string_equal(choose(f, "3.11"), "3.11.6");
	/* Differing answers are none. */
	PUT(f, "usr/bin/python3.11", "\0003.11.6\0003.11.7\0");
	assert_string_equal(choose(f, "3.11"), "3.11");
	PUT(f, "usr/bin/python3.11", "\0/3.11.6\0/3.11.7\0");
	assert_string_equal(choose(f, "3.11"), "3.11");
	/* Not a version, not this version, not ended, too long, nothing, empty. */
	PUT(f, "usr/bin/python3.11",
	    "\0003.11.\0003.11.x\00013.11.8\0.3.11.8\0003.11.8!\0003.11.8");
	assert_string_equal(choose(f, "3.11"), "3.11");
	PUT(f, "usr/bin/python3.11", "\0003.11.1234567890123456789012345678901234567890\0");
	assert_string_equal(choose(f, "3.11"), "3.11");
	PUT(f, "usr/bin/python3.11", "\0003.12.1\0");
	assert_string_equal(choose(f, "3.11"), "3.11");
	PUT(f, "usr/bin/python3.11", "");
	assert_string_equal(choose(f, "3.11"), "3.11");
}

static void a_launcher_has_it_in_its_library(void **state)
{
	struct fixture *f = *state;

	PUT(f, "opt/p/bin/python3.12", "\0libpython3.12.so.1.0\0");
	PUT(f, "opt/p/lib/libpython3.11.so.1.0", "\0003.12.9\0");
	PUT(f, "opt/p/lib/libpython3.12.so.1.0", "\0003.12.7\0");
	configure_path(f, "opt/p");
	assert_string_equal(choose(f, NULL), "3.12.7");
}

/* A row whose version stands behind a mark, in a program without a number in its name. */
static void versions_behind_a_mark(void **state)
{
	static const struct language other = {
		.name = "other",
		.programs = {{.name = "other"}},
		.versions = {{NULL, "other v"}},
		.package = "other",
	};
	struct fixture *f = *state;
	char page[4096];

	f->python = &other;
	PUT(f, "usr/bin/other", "\0009.9.9\0this is other v22.3.1 (x)\0other vx\0");
	assert_string_equal(choose(f, "22"), "22.3.1");
	/* The mark at the very end of the last page: nothing beyond is read. */
	memset(page, 'x', sizeof(page));
	memcpy(page + sizeof(page) - 7, "other v", 7);
	put_bytes(f, "usr/bin/other", page, sizeof(page), 0755);
	assert_string_equal(choose(f, NULL), "");
}

/* The file that says which version it is, as the real one of each language has it. */
struct sample {
	const char *language, *program, *bytes;
	size_t len;
	const char *file, *text; /* beside the program, or NULL */
	size_t text_len;
	const char *version;
};

#define BYTES(s) (s), sizeof(s) - 1
#define SAMPLE(l, p, b, v)                       \
	{                                        \
		l, p, BYTES(b), NULL, NULL, 0, v \
	}
#define SAMPLE_FILE(l, p, b, f, t, v)          \
	{                                      \
		l, p, BYTES(b), f, BYTES(t), v \
	}

static const struct sample samples[] = {
	SAMPLE("python", "usr/bin/python3.11", "x\0003.11.2\0", "3.11.2"),
	SAMPLE_FILE("python", "usr/bin/python3.11", "x\0libpython3.11.so.1.0\0",
		    LIB "libpython3.11.so.1.0", "\0003.11.2\0", "3.11.2"),
	SAMPLE("javascript", "usr/bin/node", "\0node.js/v20.20.2\0v8.11\0", "20.20.2"),
	SAMPLE_FILE("javascript", "usr/bin/node", "\0libnode.so.108\0", LIB "libnode.so.108",
		    "\0node.js/v18.20.4\0", "18.20.4"),
	SAMPLE("typescript", "usr/bin/node", "\0node.js/v22.7.0\0", "22.7.0"),
	SAMPLE_FILE("ruby", "usr/bin/ruby3.1", "\0libruby-3.1.so.3.1\0", LIB "libruby-3.1.so.3.1",
		    "\0ruby/3.1.0\0ruby 3.1.2p20 (2022-04-12 revision 4491bb740a)\0", "3.1.2"),
	SAMPLE("ruby", "usr/bin/ruby", "\0ruby 3.4.0preview1 (2024)\0", "3.4.0preview1"),
	SAMPLE("php", "usr/bin/php8.2", "\0X-Powered-By: PHP/8.2.35\0", "8.2.35"),
	SAMPLE("perl", "usr/bin/perl", "\0v1\0v16\0v5.36.0\0to below v5.11 is\0", "5.36.0"),
	SAMPLE_FILE("perl", "usr/bin/perl", "\0libperl.so.5.36\0", LIB "libperl.so.5.36",
		    "\0v5.36.0\0", "5.36.0"),
	SAMPLE("lua", "usr/bin/lua5.4", "\0Lua 5.4\0$LuaVersion: Lua 5.4.4  Copyright", "5.4.4"),
	SAMPLE("lua", "usr/bin/lua", "\0Lua 5.1\0$Lua: Lua 5.1.5 Copyright", "5.1.5"),
	SAMPLE_FILE("r", "usr/bin/Rscript", "\0", "usr/lib/R/library/base/DESCRIPTION",
		    "Package: base\nVersion: 4.2.2\nPriority: base\n", "4.2.2"),
	SAMPLE("bash", "usr/bin/bash", "\0@(#)Bash version 5.2.15(1) release GNU\0", "5.2.15"),
	SAMPLE("sh", "usr/bin/sh", "\0000.5.12\0", ""),
	SAMPLE("zsh", "usr/bin/zsh", "\0/etc/zsh/zshrc\0/usr/lib/x/zsh/5.9\0zsh %s\0", "5.9"),
	SAMPLE_FILE("go", "usr/lib/go-1.19/bin/go", "\0go1.4\0go1.19.8\0",
		    "usr/lib/go-1.19/VERSION", "go1.19.8", "1.19.8"),
	SAMPLE_FILE("go", "usr/lib/go-1.22/bin/go", "\0", "usr/lib/go-1.22/VERSION",
		    "go1.22rc1\ntime 2024-01-01T00:00:00Z\n", "1.22rc1"),
	SAMPLE_FILE("rust", "usr/bin/rustc", "\0librustc_driver-4c3beb75.so\0",
		    LIB "librustc_driver-4c3beb75.so",
		    "rustc version 1.63.0clang\0/usr/src/rustc-1.63.0/library/x", "1.63.0"),
	SAMPLE_FILE("rust", "usr/bin/rustc", "\0librustc_driver-61.so\0",
		    "usr/lib/librustc_driver-61.so",
		    "\0libLLVM.so.22.1-rust-1.95.0-stable\0and-rust-2018.html#more", "1.95.0"),
	SAMPLE("c", "usr/bin/gcc-12", "\00012.2.0\0(Debian 12.2.0-14) \0", "12.2.0"),
	SAMPLE("c++", "usr/bin/g++-12", "\00012.2.0\0(Debian 12.2.0-14) \0", "12.2.0"),
	SAMPLE_FILE("java", "usr/lib/jvm/java-17-openjdk-" ARCH "/bin/java", "\0",
		    "usr/lib/jvm/java-17-openjdk-" ARCH "/release",
		    "JAVA_RUNTIME_VERSION=\"17.0.21+9-Debian\"\nJAVA_VERSION=\"17.0.21\"\n",
		    "17.0.21"),
	SAMPLE_FILE("java", "usr/lib/jvm/java-21-openjdk-" ARCH "/bin/java", "\0",
		    "usr/lib/jvm/java-21-openjdk-" ARCH "/release", "JAVA_VERSION=\"21\"\n", "21"),
};

static bool has_sample(const struct language *language)
{
	for (size_t i = 0; i < ARRAY_LEN(samples); i++)
		if (strcmp(samples[i].language, language->name) == 0)
			return true;
	return false;
}

static void the_version_of_each_language(void **state)
{
	struct fixture *f = *state;

	f->places.cache_dir = NULL;
	for (size_t i = 0; i < n_languages; i++)
		assert_true(has_sample(&languages[i]));
	for (size_t i = 0; i < ARRAY_LEN(samples); i++) {
		const struct sample *s = &samples[i];
		struct runtimes r = {0};

		f->python = language_find(s->language);
		put_bytes(f, s->program, s->bytes, s->len, 0755);
		if (s->file)
			put_bytes(f, s->file, s->text, s->text_len, 0644);
		find(f, &r);
		if (r.len != 1 || strcmp(r.items[0].version, s->version) != 0)
			fail_msg("sample %zu: %zu found, '%s' instead of '%s'", i, r.len,
				 r.len ? r.items[0].version : "", s->version);
		assert_string_equal(r.items[0].program, in_tree(f, s->program));
		runtimes_done(&r);
		assert_int_equal(unlink(in_tree(f, s->program)), 0);
		if (s->file)
			assert_int_equal(unlink(in_tree(f, s->file)), 0);
	}
}

/* The library must be the one that the program names, and may be missing. */
static void a_library_is_named_by_its_program(void **state)
{
	struct fixture *f = *state;

	f->places.cache_dir = NULL;
	f->python = language_find("rust");
	PUT(f, LIB "librustc_driver-1.so", "/rustc-1.78.0/");
	PUT(f, LIB "librustc_driver-2.so", "/rustc-1.63.0/");
	PUT(f, "usr/bin/rustc", "\0librustc_driver-2.so\0");
	assert_string_equal(choose(f, NULL), "1.63.0");
	PUT(f, "usr/bin/rustc", "librustc_driver-3.so\0librustc_driver-1.so\0");
	assert_string_equal(choose(f, NULL), "1.78.0");
	PUT(f, "usr/bin/rustc", "\0librustc_driver-3.so\0librustc_driver-1.so");
	assert_string_equal(choose(f, NULL), "");
	PUT(f, "usr/bin/rustc", "\0librustc_driver/../librustc_driver-1.so\0");
	assert_string_equal(choose(f, NULL), "1.78.0");
	PUT(f, "usr/bin/rustc", "\0librustc_driver-1.so/x\0librustc_driver\0librustc_driver");
	assert_string_equal(choose(f, NULL), "");
}

static void an_unknown_version_runs_and_is_remembered(void **state)
{
	struct fixture *f = *state;
	struct stat st;

	f->python = language_find("perl");
	PUT(f, "usr/bin/perl", "\0nothing\0");
	assert_string_equal(choose(f, NULL), "");
	assert_string_equal(f->chosen.default_reason, "first found");
	assert_string_equal(choose(f, "5"), "perl 5 is not here; there is an unknown one");
	assert_int_equal(stat(in_tree(f, "usr/bin/perl"), &st), 0);
	PUT(f, "usr/bin/perl", "\0v5.36.0\0");
	keep_time(in_tree(f, "usr/bin/perl"), &st);
	assert_string_equal(choose(f, NULL), "");
	/* The control: another time, and it is looked at again. */
	PUT(f, "usr/bin/perl", "\0v5.36.0\0");
	assert_string_equal(choose(f, NULL), "5.36.0");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(versions_in_bytes),
		TEST(a_launcher_has_it_in_its_library),
		TEST(versions_behind_a_mark),
		TEST(the_version_of_each_language),
		TEST(a_library_is_named_by_its_program),
		TEST(an_unknown_version_runs_and_is_remembered),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
