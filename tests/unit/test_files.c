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
static int put_named(const struct island_files *f, const char *from, const char *to,
		     struct cay_error *err)
{
	_cleanup_(fd_closep) int fd = open(from, O_RDONLY | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0)
		return cay_fail(err, CAY_E_NOT_FOUND, errno, "--put %s", from);
	return files_put(f, fd, from, to, err);
}

static char dir[] = "/tmp/cay-test-files-XXXXXX";
static struct island_files files;

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)st;
	(void)type;
	return at->level == 0 ? 0 : remove(path);
}

static int clear(void)
{
	return nftw(".", remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static int make_top(void **state)
{
	(void)state;
	(void)umask(022);
	return !mkdtemp(dir) || chdir(dir) < 0 ? -1 : 0;
}

static int remove_top(void **state)
{
	(void)state;
	return clear() < 0 || rmdir(dir) < 0 ? -1 : 0;
}

static int begin(void **state)
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

static int end(void **state)
{
	(void)state;
	fd_closep(&files.workspace);
	fd_closep(&files.tmp);
	return 0;
}

static void make_file(const char *path, const char *text)
{
	assert_int_equal(fd_create_file_at(AT_FDCWD, path, text, strlen(text), 0644), 0);
}

static void make_dir(const char *path)
{
	assert_int_equal(mkdir(path, 0755), 0);
}

static void make_link(const char *to, const char *path)
{
	assert_int_equal(symlink(to, path), 0);
}

static void make_fifo(const char *path)
{
	assert_int_equal(mkfifo(path, 0666), 0);
}

static void make_socket(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	fd_closep(&fd);
}

static bool exists(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0;
}

/* A regular file, by itself and not through a link, with these bytes. */
static void check_file(const char *path, const char *text)
{
	_cleanup_(buf_done) struct buf data = BUF(1 << 20);
	struct stat st;

	if (lstat(path, &st) < 0)
		fail_msg("%s is not there", path);
	assert_true(S_ISREG(st.st_mode));
	assert_int_equal(fd_read_file_at(AT_FDCWD, path, &data), 0);
	assert_string_equal(buf_str(&data), text);
}

static void check_mode(const char *path, mode_t mode)
{
	struct stat st;

	assert_int_equal(lstat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, mode);
}

static void check_owner(const char *path, uid_t uid, gid_t gid)
{
	struct stat st;

	assert_int_equal(lstat(path, &st), 0);
	assert_int_equal(st.st_uid, uid);
	assert_int_equal(st.st_gid, gid);
}

static int count_entries;

static int count_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)path;
	(void)st;
	(void)type;
	(void)at;
	count_entries++;
	return 0;
}

/* out, out/d and out/f, as they were. */
static void check_outside_untouched(void)
{
	count_entries = 0;
	assert_int_equal(nftw("out", count_one, 16, FTW_PHYS), 0);
	assert_int_equal(count_entries, 3);
	check_file("out/f", "precious");
	check_mode("out/f", 0600);
	check_mode("out/d", 0755);
}

static void write_ok(const char *path, const char *text)
{
	struct cay_error err;

	if (files_write(&files, path, text, strlen(text), 0644, &err) < 0)
		fail_msg("%s", err.text);
}

static void write_refused(const char *path, const char *words)
{
	struct cay_error err = {0};

	if (files_write(&files, path, "bad", 3, 0644, &err) == 0)
		fail_msg("'%.80s' was written", path);
	assert_int_equal(err.code, CAY_E_INVALID);
	if (!strstr(err.text, words))
		fail_msg("'%s' does not say '%s'", err.text, words);
	check_outside_untouched();
}

static void put_ok(const char *from, const char *to)
{
	struct cay_error err;

	if (put_named(&files, from, to, &err) < 0)
		fail_msg("%s", err.text);
}

static void put_refused(const char *from, const char *to, enum cay_code code)
{
	struct cay_error err = {0};

	if (put_named(&files, from, to, &err) == 0)
		fail_msg("'%s' was put at '%s'", from, to ? to : "");
	assert_int_equal(err.code, code);
	if (!strstr(err.text, from) && !(to && strstr(err.text, to)))
		fail_msg("'%s' does not say what could not be put", err.text);
	check_outside_untouched();
}

static void writes_files(void **state)
{
	struct cay_error err;

	(void)state;
	write_ok("main.py", "1");
	write_ok("/workspace/a/b/c", "2");
	write_ok("/workspace//a//d", "3");
	write_ok("/tmp/t/x", "4");
	write_ok(".hidden/..x", "5");
	check_file("ws/main.py", "1");
	check_file("ws/a/b/c", "2");
	check_file("ws/a/d", "3");
	check_file("tmp/t/x", "4");
	check_file("ws/.hidden/..x", "5");
	check_mode("ws/main.py", 0644);
	check_mode("ws/a/b", 0755);
	/* Replaced, not appended; and no set-id bits. */
	assert_int_equal(files_write(&files, "main.py", "new", 3, 06755, &err), 0);
	check_file("ws/main.py", "new");
	check_mode("ws/main.py", 0755);
}

static void traversal_is_refused(void **state)
{
	static const char *const bad[] = {
		"",
		".",
		"..",
		"../x",
		"../out/x",
		"a/../x",
		"a/../../out/x",
		"a/..",
		"./x",
		"a/./b",
		"a/",
		"a/b/",
		"/workspace",
		"/workspace/",
		"/workspace/..",
		"/workspace/../out/x",
		"/tmp/../out/x",
		"/tmp",
		"/workspace/a/../../out/x",
	};
	static const char *const elsewhere[] = {"/",           "/etc/x",        "/tmpx/y",
						"/workspacex", "//workspace/x", "/out/x"};
	char name[NAME_MAX + 2];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		write_refused(bad[i], "Invalid argument");
	for (size_t i = 0; i < ARRAY_LEN(elsewhere); i++)
		write_refused(elsewhere[i], "is not below /workspace or /tmp");
	memset(name, 'n', sizeof(name));
	name[NAME_MAX + 1] = '\0';
	write_refused(name, "Invalid argument");
	name[NAME_MAX] = '\0';
	write_ok(name, "x");
	make_file("src/f", "1");
	put_refused("src/f", "../out/x", CAY_E_INVALID);
	put_refused("src/f", "a/../../out/x", CAY_E_INVALID);
	put_refused("src", "..", CAY_E_INVALID);
}

/* Each step of a/b/f in turn is a link that leads out, by every kind of way. */
static void links_on_the_way_are_refused(void **state)
{
	static const char *const targets[] = {"../out", "../../out", "/proc/self/cwd/out", "."};

	(void)state;
	make_file("src/f", "bad");
	make_dir("src/t");
	make_file("src/t/f", "bad");
	for (size_t i = 0; i < ARRAY_LEN(targets); i++) {
		make_link(targets[i], "ws/a");
		write_refused("a/b/f", "put a/b/f");
		write_refused("a/f", "put a/f");
		put_refused("src/f", "a/f", CAY_E_INVALID);
		put_refused("src/t", "a", CAY_E_INVALID);
		put_refused("src/t", "a/d", CAY_E_INVALID);
		assert_int_equal(unlink("ws/a"), 0);
		make_dir("ws/a");
		make_link(targets[i], "ws/a/b");
		write_refused("a/b/f", "put a/b/f");
		write_refused("/workspace/a/b/d/f", "put /workspace/a/b/d/f");
		put_refused("src/f", "a/b/f", CAY_E_INVALID);
		put_refused("src/t", "a/b", CAY_E_INVALID);
		assert_int_equal(unlink("ws/a/b"), 0);
		assert_int_equal(rmdir("ws/a"), 0);
	}
	/* Inside a tree that is put, too. */
	make_dir("src/t/d");
	make_file("src/t/d/f", "bad");
	make_dir("ws/t");
	make_link("../../out/d", "ws/t/d");
	put_refused("src/t", "t", CAY_E_INVALID);
	assert_false(exists("out/d/f"));
}

/* What lies at the last name is replaced, and what it led to stays as it is. */
static void last_name_is_replaced(void **state)
{
	static const char *const targets[] = {"../out/f", "../out/none", "../out/d", "f"};

	(void)state;
	make_file("src/f", "new");
	for (size_t i = 0; i < ARRAY_LEN(targets); i++) {
		make_link(targets[i], "ws/f");
		write_ok("f", "new");
		check_file("ws/f", "new");
		assert_int_equal(unlink("ws/f"), 0);
		make_link(targets[i], "ws/f");
		put_ok("src/f", NULL);
		check_file("ws/f", "new");
		assert_int_equal(unlink("ws/f"), 0);
		check_outside_untouched();
	}
	/* In a tree. */
	make_dir("ws/src");
	make_link("../../out/f", "ws/src/f");
	put_ok("src", NULL);
	check_file("ws/src/f", "new");
	check_outside_untouched();
}

static void hard_links_are_not_written_through(void **state)
{
	struct stat st;

	(void)state;
	make_file("src/f", "new");
	assert_int_equal(link("out/f", "ws/f"), 0);
	assert_int_equal(link("out/f", "ws/g"), 0);
	write_ok("f", "new");
	put_ok("src/f", "g");
	check_file("ws/f", "new");
	check_file("ws/g", "new");
	check_outside_untouched();
	assert_int_equal(stat("out/f", &st), 0);
	assert_int_equal(st.st_nlink, 1);
}

static void odd_targets_are_replaced(void **state)
{
	(void)state;
	make_file("src/f", "2");
	make_fifo("ws/fifo");
	make_socket("ws/socket");
	write_ok("fifo", "1"); /* would wait for a reader if it were opened */
	write_ok("socket", "1");
	check_file("ws/fifo", "1");
	check_file("ws/socket", "1");
	make_fifo("ws/fifo2");
	put_ok("src/f", "fifo2");
	check_file("ws/fifo2", "2");
	/* On the way they are refused. */
	make_fifo("ws/way");
	write_refused("way/f", "Not a directory");
	write_refused("fifo2/f", "Not a directory");
	/* A directory is not removed for a file, nor a file for a directory. */
	make_dir("ws/d");
	make_file("ws/d/keep", "k");
	write_refused("d", "Is a directory");
	put_refused("src/f", "d", CAY_E_INVALID);
	check_file("ws/d/keep", "k");
	put_refused("src", "fifo2", CAY_E_INVALID);
	check_file("ws/fifo2", "2");
}

static void puts_files(void **state)
{
	(void)state;
	make_file("src/f", "1");
	make_file("src/run", "2");
	assert_int_equal(chmod("src/f", 0600), 0);
	assert_int_equal(chmod("src/run", 06700), 0);
	put_ok("src/f", NULL);
	put_ok("src/run", "bin/run");
	put_ok("src/f", "/tmp/x/f");
	check_file("ws/f", "1");
	check_file("ws/bin/run", "2");
	check_file("tmp/x/f", "1");
	check_mode("ws/f", 0644);
	check_mode("ws/bin/run", 0744);
	put_refused("src/none", NULL, CAY_E_NOT_FOUND);
	put_refused("src/f", "/etc/f", CAY_E_INVALID);
}

static void puts_trees(void **state)
{
	(void)state;
	make_dir("src/d");
	make_dir("src/d/empty");
	make_file("src/d/f", "1");
	make_file("src/.h", "2");
	make_link("../out/f", "src/link");
	make_link("../out", "src/linked");
	make_fifo("src/fifo");
	make_socket("src/socket");
	put_ok("src", "t");
	check_file("ws/t/d/f", "1");
	check_file("ws/t/.h", "2");
	assert_true(exists("ws/t/d/empty"));
	assert_false(exists("ws/t/link"));
	assert_false(exists("ws/t/linked"));
	assert_false(exists("ws/t/fifo"));
	assert_false(exists("ws/t/socket"));
	/* Its name is known also where it is not written. */
	put_ok("src/d/", NULL);
	check_file("ws/d/f", "1");
	assert_int_equal(chdir("src"), 0);
	put_ok(".", NULL);
	assert_int_equal(chdir(".."), 0);
	check_file("ws/src/d/f", "1");
	/* Onto what is there: merged. */
	make_file("ws/t/d/mine", "m");
	make_file("src/d/f", "changed");
	put_ok("src", "t");
	check_file("ws/t/d/mine", "m");
	check_file("ws/t/d/f", "changed");
	check_outside_untouched();
}

static void odd_sources_are_refused(void **state)
{
	(void)state;
	make_fifo("src/fifo");
	make_socket("src/socket");
	put_refused("src/fifo", NULL, CAY_E_INVALID); /* and without waiting */
	put_refused("src/socket", NULL, CAY_E_NOT_FOUND);
	put_refused("/dev/null", "x", CAY_E_INVALID);
	put_refused("/", NULL, CAY_E_INVALID);
	assert_false(exists("ws/fifo"));
	assert_false(exists("ws/x"));
}

/* "The same name" is the one the caller gave, also when it is a link's. */
static void links_are_put_by_their_own_name(void **state)
{
	(void)state;
	make_file("src/2026.csv", "1");
	make_link("2026.csv", "src/latest.csv");
	put_ok("src/latest.csv", NULL);
	check_file("ws/latest.csv", "1");
}

/* Makes top/d/d/… with n directories below top and leaves the fd of the last. */
static int make_deep(const char *top, int n)
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

static void deep_trees_are_bounded(void **state)
{
	_cleanup_(fd_closep) int last = -1;
	struct cay_error err = {0};

	(void)state;
	make_dir("src/deep");
	last = make_deep("src/deep", TREE_DEPTH_MAX - 1);
	assert_int_equal(fd_create_file_at(last, "f", "x", 1, 0644), 0);
	put_ok("src/deep", "ok");
	assert_int_equal(mkdirat(last, "d", 0755), 0);
	assert_int_equal(put_named(&files, "src/deep", "no", &err), -1);
	assert_int_equal(err.code, CAY_E_INVALID);
}

static void read_only_workspace(void **state)
{
	struct cay_error err = {0};

	(void)state;
	make_file("src/f", "1");
	make_file("ws/there", "t");
	files.read_only = true;
	write_refused("f", "the workspace is read-only");
	write_refused("/workspace/f", "the workspace is read-only");
	assert_int_equal(put_named(&files, "src/f", "there", &err), -1);
	assert_non_null(strstr(err.text, "the workspace is read-only"));
	assert_non_null(strstr(err.hint, "--workspace SRC:rw"));
	check_file("ws/there", "t");
	assert_false(exists("ws/f"));
	write_ok("/tmp/f", "2");
	put_ok("src/f", "/tmp/g");
	check_file("tmp/f", "2");
	check_file("tmp/g", "1");
}

static void without_tmp(void **state)
{
	(void)state;
	fd_closep(&files.tmp);
	write_refused("/tmp/f", "is not below");
	write_ok("f", "1");
}

/* As root: what is put in belongs to the owner of the workspace. */
static void owners_are_given(void **state)
{
	static const char *const paths[] = {"ws/a",   "ws/a/b",   "ws/a/b/f",
					    "ws/src", "ws/src/d", "ws/src/d/f"};

	(void)state;
	if (geteuid() != 0)
		CANT_RUN("needs root");
	make_dir("src/d");
	make_file("src/d/f", "1");
	assert_int_equal(chown("ws", 1234, 2345), 0);
	files.as_owner = true;
	write_ok("a/b/f", "1");
	put_ok("src", NULL);
	for (size_t i = 0; i < ARRAY_LEN(paths); i++)
		check_owner(paths[i], 1234, 2345);
	/* And we are who we were. */
	make_file("ws/mine", "1");
	check_owner("ws/mine", 0, 0);
}

/*
 * Out.
 */

struct got {
	struct buf paths; /* each followed by a space */
	size_t n, stop_after;
};

static int take(void *ctx, const char *path, int fd, size_t size, struct cay_error *err)
{
	struct got *g = ctx;
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	assert_true(S_ISREG(st.st_mode));
	assert_int_equal(size, st.st_size);
	assert_int_equal(buf_printf(&g->paths, "%s ", path), 0);
	if (++g->n == g->stop_after)
		return cay_fail(err, CAY_E_CONFLICT, 0, "enough");
	return 0;
}

static void check_get(const char *glob, const char *expected)
{
	struct got g = {.paths = BUF(1 << 20)};
	struct cay_error err;
	size_t n = 999;

	if (files_get(&files, glob, take, &g, &n, &err) < 0)
		fail_msg("%s", err.text);
	if (strcmp(buf_str(&g.paths), expected) != 0)
		fail_msg("'%s' gives '%s', not '%s'", glob, buf_str(&g.paths), expected);
	assert_int_equal(n, g.n);
	buf_done(&g.paths);
}

static void get_refused(const char *glob, enum cay_code code, const char *words)
{
	struct got g = {.paths = BUF(1 << 20)};
	struct cay_error err = {0};
	size_t n = 999;

	if (files_get(&files, glob, take, &g, &n, &err) == 0)
		fail_msg("'%s' gives '%.200s'", glob, buf_str(&g.paths));
	assert_int_equal(err.code, code);
	if (!strstr(err.text, words))
		fail_msg("'%s' does not say '%s'", err.text, words);
	assert_int_equal(n, 999);
	buf_done(&g.paths);
}

static void make_tree(void)
{
	make_file("ws/b.txt", "bb");
	make_file("ws/a.txt", "a");
	make_file("ws/a.csv", "");
	make_dir("ws/sub");
	make_file("ws/sub/c.txt", "c");
	make_dir("ws/sub/deep");
	make_file("ws/sub/deep/d.txt", "d");
	make_dir("ws/empty");
	make_file("tmp/t.txt", "t");
}

static void gets_by_name(void **state)
{
	(void)state;
	make_tree();
	check_get("a.txt", "a.txt ");
	check_get("/workspace/a.txt", "a.txt ");
	check_get("./a.txt", "a.txt ");
	check_get("sub/c.txt", "sub/c.txt ");
	check_get("none", "");
	check_get("a", "");
	check_get("empty", "");
	check_get("/tmp/t.txt", "/tmp/t.txt ");
	check_get("/tmp/a.txt", "");
	check_get("t.txt", "");
}

static void gets_by_glob(void **state)
{
	(void)state;
	make_tree();
	check_get("*.txt", "a.txt b.txt ");
	check_get("a.*", "a.csv a.txt ");
	check_get("?.txt", "a.txt b.txt ");
	check_get("[ab].txt", "a.txt b.txt ");
	check_get("*", "a.csv a.txt b.txt ");
	check_get("*/*", "sub/c.txt ");
	check_get("sub/*", "sub/c.txt ");
	check_get("**", "a.csv a.txt b.txt sub/c.txt sub/deep/d.txt ");
	check_get("sub/**", "sub/c.txt sub/deep/d.txt ");
	check_get("**.csv", "a.csv ");
	check_get("/tmp/*", "/tmp/t.txt ");
	check_get("/tmp/**", "/tmp/t.txt ");
	check_get("/tmp", "/tmp/t.txt ");
}

static void directories_stand_for_all_in_them(void **state)
{
	(void)state;
	make_tree();
	make_file("ws/sub/.h", "h");
	make_file("ws/subway", "no");
	check_get("sub", "sub/.h sub/c.txt sub/deep/d.txt ");
	check_get("sub/", "sub/.h sub/c.txt sub/deep/d.txt ");
	check_get("/workspace/sub/", "sub/.h sub/c.txt sub/deep/d.txt ");
	check_get("sub/deep", "sub/deep/d.txt ");
	check_get("su", "");
}

/* "**" is any number of directories, none among them. */
static void two_stars_match_the_top_too(void **state)
{
	(void)state;
	make_tree();
	check_get("**/*.txt", "a.txt b.txt sub/c.txt sub/deep/d.txt ");
	check_get("**/a.txt", "a.txt ");
	check_get("sub/**/d.txt", "sub/deep/d.txt ");
	check_get("sub/**/c.txt", "sub/c.txt ");
}

/* One star stays within one directory, also where two stand beside it. */
static void one_star_stays_within_a_directory(void **state)
{
	(void)state;
	make_tree();
	check_get("*/d.txt", "");
	check_get("*/deep/**", "sub/deep/d.txt ");
	make_dir("ws/x");
	make_dir("ws/x/y");
	make_dir("ws/x/y/deep");
	make_file("ws/x/y/deep/f", "f");
	check_get("*/deep/**", "sub/deep/d.txt ");
}

static void hidden_files_are_named(void **state)
{
	(void)state;
	make_file("ws/.h", "h");
	make_file("ws/v", "v");
	make_dir("ws/d");
	make_file("ws/d/.h", "h");
	make_file("ws/d/v", "v");
	make_dir("ws/.git");
	make_file("ws/.git/c", "c");
	check_get("*", "v ");
	check_get("d/*", "d/v ");
	check_get(".*", ".h ");
	check_get(".h", ".h ");
	check_get("d/.h", "d/.h ");
	check_get(".git", ".git/c ");
}

/* Stars do not match a leading dot: of the top or of any directory. */
static void stars_do_not_match_hidden_ones(void **state)
{
	(void)state;
	make_file("ws/.h", "h");
	make_file("ws/v", "v");
	make_dir("ws/d");
	make_file("ws/d/.h", "h");
	make_file("ws/d/v", "v");
	check_get("**", "d/v v ");
}

static void the_workspace_means_everything(void **state)
{
	static const char *const names[] = {".", "/workspace", "/workspace/", "./"};

	(void)state;
	make_file("ws/.h", "h");
	make_file("ws/v", "v");
	make_dir("ws/d");
	make_file("ws/d/.h", "h");
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		check_get(names[i], ".h d/.h v ");
}

/* A file is had by its name, whatever is in it. */
static void names_that_look_like_globs(void **state)
{
	(void)state;
	make_file("ws/a[1].txt", "1");
	check_get("a[1].txt", "a[1].txt ");
}

static void get_does_not_leave(void **state)
{
	(void)state;
	make_tree();
	check_get("../out/f", "");
	check_get("sub/../../out/f", "");
	check_get("../*", "");
	check_get("/workspace/../out/f", "");
	check_get("/tmp/../out/f", "");
	get_refused("/etc/passwd", CAY_E_INVALID, "is not below /workspace or /tmp");
	get_refused("/tmpx", CAY_E_INVALID, "is not below");
	get_refused("/**", CAY_E_INVALID, "is not below");
	fd_closep(&files.tmp);
	get_refused("/tmp/t.txt", CAY_E_INVALID, "is not below");
}

static void only_regular_files_come_out(void **state)
{
	(void)state;
	make_file("ws/f", "f");
	make_link("../out/f", "ws/link");
	make_link("f", "ws/link2");
	make_link("../out", "ws/linked");
	make_link(".", "ws/loop");
	make_fifo("ws/fifo"); /* would wait for a writer */
	make_socket("ws/socket");
	check_get("**", "f ");
	check_get("link", "");
	check_get("linked", "");
	check_get("linked/f", "");
	check_get("loop/f", "");
	check_get("fifo", "");
	check_get("socket", "");
}

static void order_is_by_name(void **state)
{
	static const char *const names[] = {"z", "B", "a", "10", "9", "\xc3\xa4", "c", "b"};
	char path[32];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		(void)snprintf(path, sizeof(path), "ws/%s", names[i]);
		make_file(path, "x");
	}
	make_dir("ws/bb");
	make_file("ws/bb/2", "x");
	make_file("ws/bb/1", "x");
	check_get("**", "10 9 B a b bb/1 bb/2 c z \xc3\xa4 ");
}

static void a_taker_can_stop(void **state)
{
	struct got g = {.paths = BUF(1 << 20), .stop_after = 2};
	struct cay_error err = {0};
	size_t n = 999;

	(void)state;
	make_tree();
	assert_int_equal(files_get(&files, "**", take, &g, &n, &err), -1);
	assert_int_equal(err.code, CAY_E_CONFLICT);
	assert_int_equal(g.n, 2);
	buf_done(&g.paths);
}

static void make_many(const char *top, unsigned from, unsigned to)
{
	int at = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char name[16];

	for (unsigned i = from; i < to; i++) {
		(void)snprintf(name, sizeof(name), "%05u", i);
		assert_int_equal(mknodat(at, name, S_IFREG | 0644, 0), 0);
	}
	fd_closep(&at);
}

static void number_of_files_is_bounded(void **state)
{
	struct got g = {.paths = BUF(1 << 20)};
	struct cay_error err;
	size_t n;

	(void)state;
	make_many("ws", 0, FILES_OUT_MAX);
	assert_int_equal(files_get(&files, "*", take, &g, &n, &err), 0);
	assert_int_equal(n, FILES_OUT_MAX);
	buf_done(&g.paths);
	make_many("ws", FILES_OUT_MAX, FILES_OUT_MAX + 1);
	get_refused("*", CAY_E_TOO_LARGE, "more than 10000 files");
	check_get("10000", "10000 ");
}

static void bytes_are_bounded(void **state)
{
	(void)state;
	make_file("ws/a", "");
	make_file("ws/b", "x");
	assert_int_equal(truncate("ws/a", (off_t)FILES_OUT_BYTES), 0);
	get_refused("*", CAY_E_TOO_LARGE, "1099511627776 bytes");
	check_get("a", "a ");
	assert_int_equal(truncate("ws/a", (off_t)FILES_OUT_BYTES - 1), 0);
	check_get("*", "a b ");
	assert_int_equal(truncate("ws/a", (off_t)FILES_OUT_BYTES + 1), 0);
	get_refused("a", CAY_E_TOO_LARGE, "1099511627776 bytes");
}

/* A file that was asked for comes out, or the caller hears why not. */
static void nothing_is_lost_in_deep_trees(void **state)
{
	_cleanup_(fd_closep) int last = make_deep("ws", TREE_DEPTH_MAX + 5);
	struct got g = {.paths = BUF(1 << 20)};
	struct cay_error err = {0};
	size_t n = 0;
	int r;

	(void)state;
	assert_int_equal(fd_create_file_at(last, "f", "x", 1, 0644), 0);
	make_file("ws/top", "t");
	check_get("top", "top "); /* it does not stand in the way of others */
	r = files_get(&files, "d", take, &g, &n, &err);
	buf_done(&g.paths);
	if (r == 0 && n == 0)
		fail_msg("a file %d directories deep was left out without a word",
			 TREE_DEPTH_MAX + 5);
	assert_true(r == 0 || err.code == CAY_E_TOO_LARGE);
}

static void nothing_is_lost_in_wide_directories(void **state)
{
	struct got g = {.paths = BUF(1 << 20)};
	struct cay_error err = {0};
	size_t n = 0;
	int r;

	(void)state;
	make_many("ws", 0, STRV_MAX + 1);
	r = files_get(&files, "00007", take, &g, &n, &err);
	buf_done(&g.paths);
	if (r == 0 && n == 0)
		fail_msg("a file of a directory with many was left out without a word");
	assert_true(r == 0 || err.code == CAY_E_TOO_LARGE);
}

static void no_fds_are_left(void **state)
{
	int before = fcntl(files.tmp, F_DUPFD_CLOEXEC, 0), after;

	(void)state;
	(void)close(before);
	make_tree();
	write_ok("x/y/z", "1");
	put_ok("ws/sub", "copy");
	check_get("copy", "copy/c.txt copy/deep/d.txt ");
	write_refused("a.txt/b", "Not a directory");
	put_refused("ws/sub", "a.txt/b", CAY_E_INVALID);
	get_refused("/etc", CAY_E_INVALID, "not below");
	after = fcntl(files.tmp, F_DUPFD_CLOEXEC, 0);
	(void)close(after);
	assert_int_equal(after, before); /* the lowest free number is what it was */
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(writes_files),
		TEST(traversal_is_refused),
		TEST(links_on_the_way_are_refused),
		TEST(last_name_is_replaced),
		TEST(hard_links_are_not_written_through),
		TEST(odd_targets_are_replaced),
		TEST(puts_files),
		TEST(puts_trees),
		TEST(odd_sources_are_refused),
		TEST(links_are_put_by_their_own_name),
		TEST(deep_trees_are_bounded),
		TEST(read_only_workspace),
		TEST(without_tmp),
		TEST(owners_are_given),
		TEST(gets_by_name),
		TEST(gets_by_glob),
		TEST(directories_stand_for_all_in_them),
		TEST(two_stars_match_the_top_too),
		TEST(one_star_stays_within_a_directory),
		TEST(hidden_files_are_named),
		TEST(stars_do_not_match_hidden_ones),
		TEST(the_workspace_means_everything),
		TEST(names_that_look_like_globs),
		TEST(get_does_not_leave),
		TEST(only_regular_files_come_out),
		TEST(order_is_by_name),
		TEST(a_taker_can_stop),
		TEST(number_of_files_is_bounded),
		TEST(bytes_are_bounded),
		TEST(nothing_is_lost_in_deep_trees),
		TEST(nothing_is_lost_in_wide_directories),
		TEST(no_fds_are_left),
	};

	(void)alarm(120); /* whoever waits on a FIFO waits for ever */
	return cmocka_run_group_tests(tests, make_top, remove_top);
}
