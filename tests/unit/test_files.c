/* Files that come out. */
#include "base/clock.h"
#include "files_support.h"

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

	if (files_get(&files, glob, 0, take, &g, &n, &err) < 0)
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

	if (files_get(&files, glob, 0, take, &g, &n, &err) == 0)
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
	assert_int_equal(files_get(&files, "**", 0, take, &g, &n, &err), -1);
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
	assert_int_equal(files_get(&files, "*", 0, take, &g, &n, &err), 0);
	assert_int_equal(n, FILES_OUT_MAX);
	buf_done(&g.paths);
	make_many("ws", FILES_OUT_MAX, FILES_OUT_MAX + 1);
	get_refused("*", CAY_E_TOO_LARGE, "more than 10000 files");
	check_get("10000", "10000 ");
}

static void what_is_new(void **state)
{
	struct got g = {.paths = BUF(1 << 20)};
	struct cay_error err;
	uint64_t since;
	size_t n;

	(void)state;
	make_file("ws/old", "x");
	make_file("ws/changed", "x");
	since = clock_file_now_ns();
	while (!clock_file_is_over(since))
		(void)usleep(1000);
	make_file("ws/changed", "y");
	make_dir("ws/d");
	make_dir("ws/d/.hidden");
	make_file("ws/d/.hidden/new", "");
	assert_int_equal(files_get(&files, "*", since, take, &g, &n, &err), 0);
	assert_string_equal(buf_str(&g.paths), "changed d/.hidden/new ");
	g.paths.len = 0;
	/* Other globs mean what they say. */
	assert_int_equal(files_get(&files, "./*", since, take, &g, &n, &err), 0);
	assert_string_equal(buf_str(&g.paths), "changed old ");
	buf_done(&g.paths);
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
	r = files_get(&files, "d", 0, take, &g, &n, &err);
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
	r = files_get(&files, "00007", 0, take, &g, &n, &err);
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
		TEST(what_is_new),
		TEST(bytes_are_bounded),
		TEST(nothing_is_lost_in_deep_trees),
		TEST(nothing_is_lost_in_wide_directories),
		TEST(no_fds_are_left),
	};

	(void)alarm(120); /* whoever waits on a FIFO waits for ever */
	return cmocka_run_group_tests(tests, make_top, remove_top);
}
