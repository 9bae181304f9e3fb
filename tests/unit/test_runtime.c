/*
 * Fake trees in a directory of each test's own: tree/usr is the host as an
 * island sees it, tree/opt is where an operator might have more.
 */
#include "image/runtime.h"

#include "base/buf.h"
#include "base/fd.h"
#include "image/runtime_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define CONF "/etc/cay/cay.conf"

/* As Debian names the machine. */
#if defined(__aarch64__)
#define ARCH "arm64"
#define LIB  "usr/lib/aarch64-linux-gnu/"
#else
#define ARCH "amd64"
#define LIB  "usr/lib/x86_64-linux-gnu/"
#endif

struct fixture {
	char tree[PATH_MAX];
	char local_bin[PATH_MAX + 32], bin[PATH_MAX + 32], usr[PATH_MAX + 32], cache[PATH_MAX + 32];
	const char *dirs[3];
	struct runtime_places places;
	struct settings settings;
	const struct language *python; /* or another that a test is about */
	struct runtime chosen;
	struct cay_error err;
};

static const char *in_tree(const struct fixture *f, const char *path)
{
	static char full[2][PATH_MAX * 2];
	static int turn;

	turn = !turn;
	(void)snprintf(full[turn], sizeof(full[turn]), "%s/%s", f->tree, path);
	return full[turn];
}

static void make_dirs(const struct fixture *f, const char *path)
{
	char part[256];

	for (size_t i = 1; path[i]; i++)
		if (path[i] == '/') {
			(void)snprintf(part, sizeof(part), "%.*s", (int)i, path);
			if (mkdir(in_tree(f, part), 0755) < 0)
				assert_int_equal(errno, EEXIST);
		}
}

static void put_bytes(const struct fixture *f, const char *path, const void *data, size_t len,
		      mode_t mode)
{
	make_dirs(f, path);
	assert_int_equal(fd_create_file_at(AT_FDCWD, in_tree(f, path), data, len, mode), 0);
}

/* A program with a string of its own, as a real one has among thousands. */
static void put_program(const struct fixture *f, const char *path, const char *version)
{
	char data[256] = "\177ELF\0other\0";
	int n = snprintf(data + 64, 64, "%s", version);

	assert_true(n > 0);
	put_bytes(f, path, data, sizeof(data), 0755);
}

static void put_link(const struct fixture *f, const char *target, const char *path)
{
	make_dirs(f, path);
	assert_int_equal(symlink(target, in_tree(f, path)), 0);
}

/* An absolute link to something in the tree. */
static void put_full_link(const struct fixture *f, const char *target, const char *path)
{
	char full[PATH_MAX * 2];

	(void)snprintf(full, sizeof(full), "%s/%s", f->tree, target);
	put_link(f, full, path);
	assert_int_equal(access(in_tree(f, path), F_OK), 0);
}

/* Lays settings over those that are there, as if they stood in CONF. */
static void configure(struct fixture *f, const char *text)
{
	if (settings_parse(&f->settings, CONF, text, &f->err) < 0)
		fail_msg("%s", f->err.text);
}

static void configure_path(struct fixture *f, const char *path)
{
	char text[PATH_MAX * 3];

	(void)snprintf(text, sizeof(text), "[language %s]\npath = %s\n", f->python->name,
		       in_tree(f, path));
	configure(f, text);
}

static void find(struct fixture *f, struct runtimes *ret)
{
	if (runtimes_find_in(&f->places, &f->settings, f->python, ret, &f->err) < 0)
		fail_msg("%s", f->err.text);
}

/* The version chosen, or the error's text. */
static const char *choose(struct fixture *f, const char *version)
{
	int r;

	f->err = (struct cay_error){0};
	r = runtime_choose_in(&f->places, &f->settings, f->python, version, &f->chosen, &f->err);
	return r < 0 ? f->err.text : f->chosen.version;
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	const char *tmp = getenv("TMPDIR");
	char name[PATH_MAX];

	assert_non_null(f);
	(void)snprintf(name, sizeof(name), "%s/cay-test-XXXXXX", tmp ? tmp : "/tmp");
	assert_non_null(mkdtemp(name));
	assert_non_null(realpath(name, f->tree));
	(void)snprintf(f->usr, sizeof(f->usr), "%s/usr", f->tree);
	(void)snprintf(f->local_bin, sizeof(f->local_bin), "%s/usr/local/bin", f->tree);
	(void)snprintf(f->bin, sizeof(f->bin), "%s/usr/bin", f->tree);
	(void)snprintf(f->cache, sizeof(f->cache), "%s/var/cache", f->tree);
	make_dirs(f, "usr/local/bin/");
	make_dirs(f, "usr/bin/");
	f->dirs[0] = f->local_bin;
	f->dirs[1] = f->bin;
	f->places = (struct runtime_places){f->dirs, f->usr, f->cache};
	f->python = language_find("python");
	settings_init(&f->settings);
	*state = f;
	return 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	settings_done(&f->settings);
	assert_int_equal(nftw(f->tree, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
	free(f);
	return 0;
}

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
	static const char hint[] = "install the Debian package python3, or name a directory: "
				   "[language python] path = DIR in /etc/cay/cay.conf";
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
	assert_string_equal(f->err.hint, hint);
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

#define PUT(f, path, bytes) put_bytes(f, path, bytes, sizeof(bytes) - 1, 0755)

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

static void keep_time(const char *path, const struct stat *st)
{
	const struct timespec times[2] = {st->st_atim, st->st_mtim};

	assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
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

#define NODE(f, path, version) PUT(f, path, "\0node.js/v" version "\0")

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

#define JDK(n) "usr/lib/jvm/java-" n "-openjdk-" ARCH

static void put_java(const struct fixture *f, const char *home, const char *version)
{
	char path[PATH_MAX], text[64];
	int n = snprintf(text, sizeof(text), "JAVA_VERSION=\"%s\"\n", version);

	(void)snprintf(path, sizeof(path), "%s/release", home);
	put_bytes(f, path, text, (size_t)n, 0644);
	(void)snprintf(path, sizeof(path), "%s/bin/java", home);
	put_bytes(f, path, "x", 1, 0755);
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

static void the_cache_goes_by_identity(void **state)
{
	struct fixture *f = *state;
	const char *path = "usr/bin/python3.11";
	struct stat st;

	put_program(f, path, "3.11.2");
	assert_string_equal(choose(f, NULL), "3.11.2");
	assert_int_equal(stat(in_tree(f, path), &st), 0);

	/* The same inode, size and time: the bytes are not looked at again. */
	put_program(f, path, "3.11.7");
	keep_time(in_tree(f, path), &st);
	assert_string_equal(choose(f, NULL), "3.11.2");

	/* A nanosecond is enough. */
	st.st_mtim.tv_nsec = (st.st_mtim.tv_nsec + 1) % 1000000000;
	keep_time(in_tree(f, path), &st);
	assert_string_equal(choose(f, NULL), "3.11.7");

	/* So is a size, */
	put_bytes(f, path, "\0003.11.9", 8, 0755);
	keep_time(in_tree(f, path), &st);
	assert_string_equal(choose(f, NULL), "3.11.9");

	/* and another file in its place. */
	put_bytes(f, "usr/bin/new", "\0003.11.8", 8, 0755);
	assert_int_equal(rename(in_tree(f, "usr/bin/new"), in_tree(f, path)), 0);
	keep_time(in_tree(f, path), &st);
	assert_string_equal(choose(f, NULL), "3.11.8");
}

static void the_cache_file_is_plain(void **state)
{
	struct fixture *f = *state;
	char expected[256];
	_cleanup_(buf_done) struct buf text = BUF(4096);
	struct stat st;

	put_program(f, "usr/bin/python3.11", "3.11.2");
	(void)umask(077);
	assert_string_equal(choose(f, NULL), "3.11.2");
	(void)umask(022);
	assert_int_equal(stat(in_tree(f, "usr/bin/python3.11"), &st), 0);
	(void)snprintf(expected, sizeof(expected),
		       "cay " CAY_VERSION "\npython %ju %ju %ju %ju 256 3.11.2\n",
		       (uintmax_t)st.st_dev, (uintmax_t)st.st_ino, (uintmax_t)st.st_mtim.tv_sec,
		       (uintmax_t)st.st_mtim.tv_nsec);
	assert_int_equal(fd_read_file_at(AT_FDCWD, in_tree(f, "var/cache/runtimes"), &text), 0);
	assert_string_equal(buf_str(&text), expected);
	assert_int_equal(stat(in_tree(f, "var/cache/runtimes"), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0644);
}

/* Puts a cache there that says version of python3.11; extra stands before and after. */
static void forge_by(struct fixture *f, const char *maker, const char *extra, const char *version,
		     mode_t mode)
{
	char text[65536];
	struct stat st;
	int n;

	assert_int_equal(stat(in_tree(f, "usr/bin/python3.11"), &st), 0);
	n = snprintf(text, sizeof(text), "%s\n%s\npython %ju %ju %ju %ju %ju %s\n%s", maker, extra,
		     (uintmax_t)st.st_dev, (uintmax_t)st.st_ino, (uintmax_t)st.st_mtim.tv_sec,
		     (uintmax_t)st.st_mtim.tv_nsec, (uintmax_t)st.st_size, version, extra);
	assert_true(n > 0 && (size_t)n < sizeof(text));
	make_dirs(f, "var/cache/");
	put_bytes(f, "var/cache/runtimes", text, (size_t)n, 0644);
	assert_int_equal(chmod(in_tree(f, "var/cache/runtimes"), mode), 0);
}

static void forge(struct fixture *f, const char *extra, const char *version, mode_t mode)
{
	forge_by(f, "cay " CAY_VERSION, extra, version, mode);
}

static void a_corrupt_cache_is_ignored(void **state)
{
	static const char *const wrong[] = {
		"",
		"x",
		"3.11.9 ",
		" 3.11.9",
		"3.11.9/../..",
		"3.11.\033[1m",
		"3.12.99",
		"3.11.9;",
		"3.11.99999999999999999999999999999999999",
		"3.119",
	};
	struct fixture *f = *state;
	char huge[40000];

	put_program(f, "usr/bin/python3.11", "3.11.2");
	/* The control: a sound one is believed, also between lines that are not. */
	forge(f, "", "3.11.99", 0644);
	assert_string_equal(choose(f, NULL), "3.11.99");
	forge(f, "python\npython 1 2\n\n \n\001\002\npython x 1 1 1 1 3.1", "3.11.98", 0644);
	assert_string_equal(choose(f, NULL), "3.11.98");
	for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
		forge(f, "", wrong[i], 0644);
		assert_string_equal(choose(f, NULL), "3.11.2");
	}
	memset(huge, 'x', sizeof(huge));
	huge[sizeof(huge) / 2] = '\0';
	forge(f, huge, "3.11.99", 0644);
	assert_string_equal(choose(f, NULL), "3.11.2");
}

static void a_cache_of_others_is_ignored(void **state)
{
	struct fixture *f = *state;
	const char *file = "var/cache/runtimes";

	put_program(f, "usr/bin/python3.11", "3.11.2");
	forge_by(f, "cay 0.0", "", "3.11.99", 0644);
	assert_string_equal(choose(f, NULL), "3.11.2");
	forge(f, "", "3.11.99", 0664);
	assert_string_equal(choose(f, NULL), "3.11.2");

	forge(f, "", "3.11.99", 0644);
	assert_int_equal(rename(in_tree(f, file), in_tree(f, "mine")), 0);
	assert_int_equal(symlink(in_tree(f, "mine"), in_tree(f, file)), 0);
	assert_string_equal(choose(f, NULL), "3.11.2");

	if (geteuid() == 0) {
		forge(f, "", "3.11.99", 0644);
		assert_int_equal(chown(in_tree(f, file), 12345, 12345), 0);
		assert_string_equal(choose(f, NULL), "3.11.2");
	}
}

static void no_cache_is_no_error(void **state)
{
	struct fixture *f = *state;

	put_program(f, "usr/bin/python3.11", "3.11.2");
	put_bytes(f, "var/cache", "a file", 6, 0644);
	assert_string_equal(choose(f, NULL), "3.11.2");
	f->places.cache_dir = "/proc/nowhere/cay";
	assert_string_equal(choose(f, NULL), "3.11.2");
	f->places.cache_dir = NULL;
	assert_string_equal(choose(f, NULL), "3.11.2");
}

/* The oldest go; the file never grows beyond what is read back. */
static void the_cache_is_bounded(void **state)
{
	struct fixture *f = *state;
	struct runtime_cache c = {0};
	struct stat st = {.st_dev = UINT64_MAX, .st_size = INT64_MAX};

	make_dirs(f, "var/cache/");
	st.st_mtim.tv_sec = INT64_MAX;
	st.st_mtim.tv_nsec = 999999999;
	for (size_t i = 0; i < RUNTIME_CACHE_MAX + 10; i++) {
		st.st_ino = UINT64_MAX - i;
		runtime_cache_put(&c, "fifteen-letters", &st, "3.12.1234567890123456789012345");
	}
	runtime_cache_save(&c, f->cache);
	runtime_cache_load(&c, f->cache);
	assert_int_equal(c.len, RUNTIME_CACHE_MAX);
	assert_non_null(runtime_cache_get(&c, "fifteen-letters", &st));
	assert_null(runtime_cache_get(&c, "python", &st));
	st.st_ino = UINT64_MAX - 9;
	assert_null(runtime_cache_get(&c, "fifteen-letters", &st));
	st.st_ino = UINT64_MAX - 10;
	assert_non_null(runtime_cache_get(&c, "fifteen-letters", &st));
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
		TEST(versions_in_bytes),
		TEST(a_launcher_has_it_in_its_library),
		TEST(versions_behind_a_mark),
		TEST(the_version_of_each_language),
		TEST(a_library_is_named_by_its_program),
		TEST(an_unknown_version_runs_and_is_remembered),
		TEST(a_language_that_runs_on_another),
		TEST(a_tool_is_beside_or_on_the_host),
		TEST(what_works_without_its_tool),
		TEST(jdks_side_by_side),
		TEST(a_name_s_number_counts_whatever_it_links_to),
		TEST(the_cache_goes_by_identity),
		TEST(the_cache_file_is_plain),
		TEST(a_corrupt_cache_is_ignored),
		TEST(a_cache_of_others_is_ignored),
		TEST(no_cache_is_no_error),
		TEST(the_cache_is_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
