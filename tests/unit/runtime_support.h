/*
 * runtime_support.h: a tree that looks like a host's, with interpreters to be found in it.
 */
#pragma once

/*
 * Fake trees in a directory of each test's own: tree/usr is the host as an
 * island sees it, tree/opt is where an operator might have more.
 */
#include "image/runtime_choose.h"

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

static inline const char *in_tree(const struct fixture *f, const char *path)
{
	static char full[2][PATH_MAX * 2];
	static int turn;

	turn = !turn;
	(void)snprintf(full[turn], sizeof(full[turn]), "%s/%s", f->tree, path);
	return full[turn];
}

static inline void make_dirs(const struct fixture *f, const char *path)
{
	char part[256];

	for (size_t i = 1; path[i]; i++)
		if (path[i] == '/') {
			(void)snprintf(part, sizeof(part), "%.*s", (int)i, path);
			if (mkdir(in_tree(f, part), 0755) < 0)
				assert_int_equal(errno, EEXIST);
		}
}

static inline void put_bytes(const struct fixture *f, const char *path, const void *data,
			     size_t len, mode_t mode)
{
	make_dirs(f, path);
	assert_int_equal(fd_create_file_at(AT_FDCWD, in_tree(f, path), data, len, mode), 0);
}

/* A program with a string of its own, as a real one has among thousands. */
static inline void put_program(const struct fixture *f, const char *path, const char *version)
{
	char data[256] = "\177ELF\0other\0";
	int n = snprintf(data + 64, 64, "%s", version);

	assert_true(n > 0);
	put_bytes(f, path, data, sizeof(data), 0755);
}

static inline void put_link(const struct fixture *f, const char *target, const char *path)
{
	make_dirs(f, path);
	assert_int_equal(symlink(target, in_tree(f, path)), 0);
}

/* An absolute link to something in the tree. */
static inline void put_full_link(const struct fixture *f, const char *target, const char *path)
{
	char full[PATH_MAX * 2];

	(void)snprintf(full, sizeof(full), "%s/%s", f->tree, target);
	put_link(f, full, path);
	assert_int_equal(access(in_tree(f, path), F_OK), 0);
}

/* Lays settings over those that are there, as if they stood in CONF. */
static inline void configure(struct fixture *f, const char *text)
{
	if (settings_parse(&f->settings, CONF, text, &f->err) < 0)
		fail_msg("%s", f->err.text);
}

static inline void configure_path(struct fixture *f, const char *path)
{
	char text[PATH_MAX * 3];

	(void)snprintf(text, sizeof(text), "[language %s]\npath = %s\n", f->python->name,
		       in_tree(f, path));
	configure(f, text);
}

static inline void find(struct fixture *f, struct runtimes *ret)
{
	if (runtimes_find_in(&f->places, &f->settings, f->python, ret, &f->err) < 0)
		fail_msg("%s", f->err.text);
}

/* The version chosen, or the error's text. */
static inline const char *choose(struct fixture *f, const char *version)
{
	int r;

	f->err = (struct cay_error){0};
	r = runtime_choose_in(&f->places, &f->settings, f->python, version, &f->chosen, &f->err);
	return r < 0 ? f->err.text : f->chosen.version;
}

static inline int setup(void **state)
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
	f->places = (struct runtime_places){
		.host_dirs = f->dirs, .host_root = f->usr, .cache_dir = f->cache};
	f->python = language_find("python");
	settings_init(&f->settings);
	*state = f;
	return 0;
}

static inline int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

static inline int teardown(void **state)
{
	struct fixture *f = *state;

	settings_done(&f->settings);
	assert_int_equal(nftw(f->tree, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
	free(f);
	return 0;
}

#define PUT(f, path, bytes) put_bytes(f, path, bytes, sizeof(bytes) - 1, 0755)

static inline void keep_time(const char *path, const struct stat *st)
{
	const struct timespec times[2] = {st->st_atim, st->st_mtim};

	assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

#define NODE(f, path, version) PUT(f, path, "\0node.js/v" version "\0")

#define JDK(n) "usr/lib/jvm/java-" n "-openjdk-" ARCH

static inline void put_java(const struct fixture *f, const char *home, const char *version)
{
	char path[PATH_MAX], text[64];
	int n = snprintf(text, sizeof(text), "JAVA_VERSION=\"%s\"\n", version);

	(void)snprintf(path, sizeof(path), "%s/release", home);
	put_bytes(f, path, text, (size_t)n, 0644);
	(void)snprintf(path, sizeof(path), "%s/bin/java", home);
	put_bytes(f, path, "x", 1, 0755);
}
