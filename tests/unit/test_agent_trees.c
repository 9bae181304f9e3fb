/* The files agent: trees out and in, and watching them. */
#include "core/limits.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "agent_support.h"

static void tree_out(const char *path)
{
	ask((struct agent_ask){.op = AGENT_TREE_OUT, .path = path, .length = AGENT_TO_END});
}

static void get(const char *globs, size_t len)
{
	ask((struct agent_ask){.op = AGENT_TREE_OUT,
			       .path = ".",
			       .arg = globs,
			       .arg_len = len,
			       .flags = AGENT_GET,
			       .length = AGENT_TO_END});
}

static void trees_go_out(void **state _unused_)
{
	assert_int_equal(mkdir("ws/d", 0750), 0);
	make("ws/d/f", "one");
	make("ws/d/.h", "two");
	assert_int_equal(symlink("../../out", "ws/d/l"), 0);
	assert_int_equal(mkfifo("ws/d/fifo", 0644), 0);
	make("out/secret", "");
	tree_out(".");
	ok();
	assert_int_equal(got.n_files, 4);
	assert_int_equal(got.end.skipped, 1);
	assert_string_equal(got.files[0].path, "d");
	assert_string_equal(got.files[1].path, "d/.h");
	assert_string_equal(got.files[2].path, "d/f");
	assert_string_equal(got.files[3].path, "d/l");
	assert_string_equal(got.files[3].target, "../../out");
	assert_string_equal(buf_str(&got.data), "twoone");
	tree_out("d/f");
	ok();
	assert_string_equal(got.files[0].path, "f");
	assert_string_equal(buf_str(&got.data), "one");
	tree_out("d/fifo");
	fails(CAY_E_INVALID, "no regular file");
	tree_out("none");
	fails(CAY_E_NOT_FOUND, "none");
	ask((struct agent_ask){.op = AGENT_TREE_OUT, .path = ".", .length = 5});
	fails(CAY_E_TOO_LARGE, "5 bytes");
	make_deep("ws/d", TREE_DEPTH_MAX + 1);
	tree_out(".");
	fails(CAY_E_TOO_LARGE, "deeper");
}

static void globs_go_out(void **state _unused_)
{
	static const char globs[] = "*.csv\0./d/**\0/workspace/.h\0none*";

	make("ws/a.csv", "1");
	make("ws/b.txt", "2");
	make("ws/.h", "3");
	assert_int_equal(mkdir("ws/d", 0755), 0);
	assert_int_equal(mkdir("ws/d/e", 0755), 0);
	make("ws/d/e/x", "4");
	assert_int_equal(symlink("x", "ws/d/e/l"), 0);
	get(globs, sizeof(globs) - 1);
	ok();
	assert_int_equal(got.n_files, 3);
	assert_string_equal(got.files[0].path, "a.csv");
	assert_string_equal(got.files[1].path, "d/e/x");
	assert_int_equal(got.files[1].glob, 1);
	assert_string_equal(got.files[2].path, ".h");
	assert_string_equal(buf_str(&got.data), "143");
	get("/etc/passwd", 11);
	fails(CAY_E_INVALID, "not below");
	(void)fd_create_file_at(AT_FDCWD, "/tmp/cay-test-agent-file", "t", 1, 0644);
	get("/tmp/cay-test-agent-f*", 22);
	(void)unlink("/tmp/cay-test-agent-file");
	ok();
	assert_string_equal(got.files[0].path, "/tmp/cay-test-agent-file");
}

static void tree_in(const char *path, const struct agent_file *files, const char *const *texts,
		    size_t n)
{
	struct session s = {.out = &got, .tree = files, .texts = texts, .n_tree = n};
	struct agent_ask a = {.op = AGENT_TREE_IN, .path = path, .idle_ms = 20000};

	outcome_done(&got);
	run_session(&s, base, &a);
	assert_true(got.done);
}

#define DIR_ENTRY(p)                                         \
	{                                                    \
		.type = AGENT_DIR, .path = (p), .mode = 0500 \
	}
#define FILE_ENTRY(p, n)                                                                   \
	{                                                                                  \
		.type = AGENT_FILE, .path = (p), .mode = 06755, .size = (n), .mtime_ns = 5 \
	}
#define LINK_ENTRY(p, t)                                       \
	{                                                      \
		.type = AGENT_LINK, .path = (p), .target = (t) \
	}
#define HARD_ENTRY(p, t)                                            \
	{                                                           \
		.type = AGENT_HARD_LINK, .path = (p), .target = (t) \
	}

static void trees_come_in(void **state _unused_)
{
	static const struct agent_file files[] = {
		DIR_ENTRY("d"),         FILE_ENTRY("d/f", 5),
		FILE_ENTRY("x/y/z", 0), LINK_ENTRY("l", "/etc"),
		HARD_ENTRY("h", "d/f"), LINK_ENTRY("l", "other"),
		HARD_ENTRY("h", "d/f"), FILE_ENTRY("x/y/z", AGENT_SIZE_UNKNOWN),
	};
	static const char *const texts[] = {"", "hello", "", "", "", "", "", "again"};
	struct stat st;
	char target[16] = "";

	tree_in("new/top", files, texts, ARRAY_LEN(files));
	ok();
	assert_int_equal(got.end.entries, ARRAY_LEN(files));
	assert_int_equal(got.end.bytes, 10);
	holds("ws/new/top/d/f", "hello");
	holds("ws/new/top/h", "hello");
	holds("ws/new/top/x/y/z", "again");
	assert_int_equal(stat("ws/new/top/d", &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	assert_int_equal(stat("ws/new/top/d/f", &st), 0);
	assert_int_equal(st.st_mode & 07777, 0755);
	assert_int_equal(st.st_mtim.tv_nsec, 5);
	assert_int_equal(st.st_nlink, 2);
	assert_int_equal(readlink("ws/new/top/l", target, sizeof(target)), 5);
	nothing_left();
}

static void trees_that_lead_out(void **state _unused_)
{
	static const struct agent_file cases[][2] = {
		{LINK_ENTRY("l", "../out"), FILE_ENTRY("l/x", 1)},
		{LINK_ENTRY("l", "../out"), DIR_ENTRY("l/x")},
		{LINK_ENTRY("l", "../out"), HARD_ENTRY("h", "l/kept")},
		{LINK_ENTRY("d", "../out"), DIR_ENTRY("d")},
		{FILE_ENTRY("f", 1), DIR_ENTRY("f")},
		{DIR_ENTRY("d"), FILE_ENTRY("d", 1)},
		{FILE_ENTRY("f", 1), FILE_ENTRY("f/g", 1)},
		{FILE_ENTRY("f", 1), HARD_ENTRY("h", "none")},
		{FILE_ENTRY("f", 1), HARD_ENTRY("h", "../out/kept")},
		{FILE_ENTRY("f", 1), FILE_ENTRY("g", 2)},
		{FILE_ENTRY("f", 1), {.type = AGENT_DEVICE, .path = "dev"}},
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const char *texts[] = {cases[i][0].size ? "x" : "", cases[i][1].size ? "x" : ""};

		assert_int_equal(begin(NULL), 0);
		make("out/kept", "kept");
		tree_in(".", cases[i], texts, 2);
		if (got.ok || got.err.code == CAY_E_INTERNAL)
			fail_msg("case %zu: %s", i, got.err.text);
		holds("out/kept", "kept");
		assert_false(exists("out/x") || exists("ws/h") || exists("ws/g"));
		nothing_left();
	}
}

/*
 * Watch
 */

struct watcher {
	struct session s; /* its first */
	struct buf news;
};

static void run_or_fail(const char *what, int r)
{
	if (r < 0)
		fail_msg("%s: %s", what, strerror(errno));
}

/* What each does is told apart by the names of the files. */
static void make_changes(void *ctx, const struct agent_file *f)
{
	on_entry(ctx, f);
	make("ws/new", "");
	for (int n = 0; n < 50; n++)
		make("ws/old", "x");
	run_or_fail("move", rename("ws/from", "ws/to"));
	run_or_fail("out", rename("ws/leaves", "out/leaves"));
	run_or_fail("unlink", unlink("ws/gone"));
	run_or_fail("mkdir", mkdir("ws/dir", 0755));
	run_or_fail("mkdir", mkdir("ws/dir/sub", 0755));
	make("ws/dir/sub/file", "");
	run_or_fail("move a directory", rename("ws/known", "ws/other"));
	make("ws/other/in", "");
	make("ws/zz-end", "");
}

static void note_news(void *ctx, const struct agent_news *n)
{
	static const char *const words[AGENT_CHANGES] = {"",        "created", "modified",
							 "deleted", "moved",   "lost"};
	struct watcher *w = ctx;

	assert_int_equal(buf_printf(&w->news, "%s%s %s %s\n", words[n->change],
				    n->is_dir ? "/" : "", n->path, n->to),
			 0);
	if (strcmp(n->path, "zz-end") == 0)
		loop_stop(w->s.loop);
}

static void has(const struct watcher *w, const char *line)
{
	if (!strstr(buf_str(&w->news), line))
		fail_msg("no %s in %s", line, buf_str(&w->news));
}

static void watches(void **state _unused_)
{
	static const struct agent_sink sink = {
		.entry = make_changes, .news = note_news, .done = on_done};
	const struct agent_ask a = {.op = AGENT_WATCH, .path = ".", .flags = AGENT_RECURSIVE};
	struct watcher w = {.s.out = &got, .news = BUF(1 << 20)};
	struct cay_error err;
	int to, from, status;
	pid_t pid;

	outcome_done(&got);
	make("ws/old", "");
	make("ws/from", "");
	make("ws/leaves", "");
	make("ws/gone", "");
	assert_int_equal(mkdir("ws/known", 0755), 0);
	pid = start_agent(base, &to, &from);
	w.s.loop = loop_new();
	w.s.call = agent_call_new(w.s.loop, to, from, &a, &sink, &w, &err);
	assert_int_equal(loop_run(w.s.loop), 0);
	if (got.done)
		fail_msg("%s", got.err.text);
	agent_call_free(w.s.call);
	loop_free(w.s.loop);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	has(&w, "created new \n");
	has(&w, "modified old \nmoved from to\n");
	has(&w, "deleted leaves \n");
	has(&w, "deleted gone \n");
	has(&w, "created/ dir \n");
	has(&w, "created/ dir/sub \n");
	has(&w, "created dir/sub/file \n");
	has(&w, "moved/ known other\n");
	has(&w, "created other/in \n");
	assert_null(strstr(buf_str(&w.news), "lost"));
	buf_done(&w.news);
	ask((struct agent_ask){.op = AGENT_WATCH, .path = "zz-end"});
	fails(CAY_E_NOT_FOUND, "zz-end");
}

static void all_of_it_works_under_the_filter(void **state _unused_)
{
	static agent_test *const tests[] = {trees_go_out, globs_go_out, trees_come_in, watches};

	under_the_filter(tests, ARRAY_LEN(tests));
}

#define TEST(f) cmocka_unit_test_setup(f, begin)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(trees_go_out),  TEST(globs_go_out),
		TEST(trees_come_in), TEST(trees_that_lead_out),
		TEST(watches),       TEST(all_of_it_works_under_the_filter),
	};

	return cmocka_run_group_tests(tests, make_top, remove_top);
}
