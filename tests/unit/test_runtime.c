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

struct fixture {
	char tree[PATH_MAX];
	char local_bin[PATH_MAX + 32], bin[PATH_MAX + 32], usr[PATH_MAX + 32], cache[PATH_MAX + 32];
	const char *dirs[3];
	struct runtime_places places;
	struct settings settings;
	const struct language *python;
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

	(void)snprintf(text, sizeof(text), "[language python]\npath = %s\n", in_tree(f, path));
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
	assert_string_equal(r.items[0].source, CONF);
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
	assert_string_equal(f->chosen.source, CONF);
}

static void a_named_directory_must_be_there(void **state)
{
	struct fixture *f = *state;
	char expected[PATH_MAX * 2];

	put_program(f, "usr/bin/python3.12", "3.12.1");
	configure_path(f, "opt/gone");
	(void)snprintf(expected, sizeof(expected),
		       "[language python] path = %s (" CONF "): No such file or directory",
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
		       "): no program python3.* in it that can be used",
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
	(void)snprintf(expected, sizeof(expected), "python %ju %ju %ju %ju 256 3.11.2\n",
		       (uintmax_t)st.st_dev, (uintmax_t)st.st_ino, (uintmax_t)st.st_mtim.tv_sec,
		       (uintmax_t)st.st_mtim.tv_nsec);
	assert_int_equal(fd_read_file_at(AT_FDCWD, in_tree(f, "var/cache/runtimes"), &text), 0);
	assert_string_equal(buf_str(&text), expected);
	assert_int_equal(stat(in_tree(f, "var/cache/runtimes"), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0644);
}

/* Puts a cache there that says version of python3.11; extra stands before and after. */
static void forge(struct fixture *f, const char *extra, const char *version, mode_t mode)
{
	char text[65536];
	struct stat st;
	int n;

	assert_int_equal(stat(in_tree(f, "usr/bin/python3.11"), &st), 0);
	n = snprintf(text, sizeof(text), "%s\npython %ju %ju %ju %ju %ju %s\n%s", extra,
		     (uintmax_t)st.st_dev, (uintmax_t)st.st_ino, (uintmax_t)st.st_mtim.tv_sec,
		     (uintmax_t)st.st_mtim.tv_nsec, (uintmax_t)st.st_size, version, extra);
	assert_true(n > 0 && (size_t)n < sizeof(text));
	make_dirs(f, "var/cache/");
	put_bytes(f, "var/cache/runtimes", text, (size_t)n, 0644);
	assert_int_equal(chmod(in_tree(f, "var/cache/runtimes"), mode), 0);
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
		TEST(the_cache_goes_by_identity),
		TEST(the_cache_file_is_plain),
		TEST(a_corrupt_cache_is_ignored),
		TEST(a_cache_of_others_is_ignored),
		TEST(no_cache_is_no_error),
		TEST(the_cache_is_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
