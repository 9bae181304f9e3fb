/*
 * files_support.h: a workspace with something beside it that nothing may reach.
 */
#pragma once

#include "clear.h"
#include "cli/files.h"

#include "base/attr.h"
#include "base/buf.h"
#include "base/fd.h"
#include "core/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "must_work.h"

/*
 * Theory: in one directory lie "ws" and "tmp", which are the island's, "src",
 * which is the host's and is put in, and "out", which nothing may reach; the
 * current directory is there, so that tests can say "ws/a". Whatever hostile
 * code can leave in ws lies there before the call.
 */
/* files_put() of a path, opened as `cay run --put` opens it. */
static inline int put_named(const struct island_files *f, const char *from, const char *to,
			    struct cay_error *err)
{
	_cleanup_(fd_closep) int fd = open(from, O_RDONLY | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0)
		return cay_fail(err, CAY_E_NOT_FOUND, errno, "--put %s", from);
	return files_put(f, fd, from, to, err);
}

static char dir[] = "/tmp/cay-test-files-XXXXXX";
static struct island_files files;

static inline int make_top(void **state)
{
	(void)state;
	(void)umask(022);
	return !mkdtemp(dir) || chdir(dir) < 0 ? -1 : 0;
}

static inline int remove_top(void **state)
{
	(void)state;
	return clear() < 0 || rmdir(dir) < 0 ? -1 : 0;
}

static inline int begin(void **state)
{
	(void)state;
	if (clear() < 0 || mkdir("ws", 0755) < 0 || mkdir("tmp", 0755) < 0 ||
	    mkdir("src", 0755) < 0 || mkdir("out", 0755) < 0 || mkdir("out/d", 0755) < 0)
		return -1;
	files = (struct island_files){
		.workspace = open("ws", O_RDONLY | O_DIRECTORY | O_CLOEXEC),
		.tmp = open("tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC),
	};
	return fd_create_file_at(AT_FDCWD, "out/f", "precious", 8, 0600);
}

static inline int end(void **state)
{
	(void)state;
	fd_closep(&files.workspace);
	fd_closep(&files.tmp);
	return 0;
}

static inline void make_file(const char *path, const char *text)
{
	assert_int_equal(fd_create_file_at(AT_FDCWD, path, text, strlen(text), 0644), 0);
}

static inline void make_dir(const char *path)
{
	assert_int_equal(mkdir(path, 0755), 0);
}

static inline void make_link(const char *to, const char *path)
{
	assert_int_equal(symlink(to, path), 0);
}

static inline void make_fifo(const char *path)
{
	assert_int_equal(mkfifo(path, 0666), 0);
}

static inline void make_socket(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	fd_closep(&fd);
}

static inline bool exists(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0;
}

/* A regular file, by itself and not through a link, with these bytes. */
static inline void check_file(const char *path, const char *text)
{
	_cleanup_(buf_done) struct buf data = BUF(1 << 20);
	struct stat st;

	if (lstat(path, &st) < 0)
		fail_msg("%s is not there", path);
	assert_true(S_ISREG(st.st_mode));
	assert_int_equal(fd_read_file_at(AT_FDCWD, path, &data), 0);
	assert_string_equal(buf_str(&data), text);
}

static inline void check_mode(const char *path, mode_t mode)
{
	struct stat st;

	assert_int_equal(lstat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, mode);
}

static inline void check_owner(const char *path, uid_t uid, gid_t gid)
{
	struct stat st;

	assert_int_equal(lstat(path, &st), 0);
	assert_int_equal(st.st_uid, uid);
	assert_int_equal(st.st_gid, gid);
}

static int count_entries;

static inline int count_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)path;
	(void)st;
	(void)type;
	(void)at;
	count_entries++;
	return 0;
}

/* out, out/d and out/f, as they were. */
static inline void check_outside_untouched(void)
{
	count_entries = 0;
	assert_int_equal(nftw("out", count_one, 16, FTW_PHYS), 0);
	assert_int_equal(count_entries, 3);
	check_file("out/f", "precious");
	check_mode("out/f", 0600);
	check_mode("out/d", 0755);
}

static inline void write_ok(const char *path, const char *text)
{
	struct cay_error err;

	if (files_write(&files, path, text, strlen(text), 0644, &err) < 0)
		fail_msg("%s", err.text);
}

static inline void write_refused(const char *path, const char *words)
{
	struct cay_error err = {0};

	if (files_write(&files, path, "bad", 3, 0644, &err) == 0)
		fail_msg("'%.80s' was written", path);
	assert_int_equal(err.code, CAY_E_INVALID);
	if (!strstr(err.text, words))
		fail_msg("'%s' does not say '%s'", err.text, words);
	check_outside_untouched();
}

static inline void put_ok(const char *from, const char *to)
{
	struct cay_error err;

	if (put_named(&files, from, to, &err) < 0)
		fail_msg("%s", err.text);
}

static inline void put_refused(const char *from, const char *to, enum cay_code code)
{
	struct cay_error err = {0};

	if (put_named(&files, from, to, &err) == 0)
		fail_msg("'%s' was put at '%s'", from, to ? to : "");
	assert_int_equal(err.code, code);
	if (!strstr(err.text, from) && !(to && strstr(err.text, to)))
		fail_msg("'%s' does not say what could not be put", err.text);
	check_outside_untouched();
}

/* Makes top/d/d/… with n directories below top and leaves the fd of the last. */
static inline int make_deep(const char *top, int n)
{
	int at = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	for (int i = 0; i < n; i++) {
		int next;

		assert_int_equal(mkdirat(at, "d", 0755), 0);
		next = openat(at, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		fd_closep(&at);
		at = next;
	}
	assert_true(at >= 0);
	return at;
}
