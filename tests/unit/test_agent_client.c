/*
 * The client against agents that are none of ours: each answer is written to a
 * pipe by the test, and must be refused or be what it says.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <cmocka.h>

#include "agent_support.h"

/* An answer that is put together record by record. */
static struct buf answer;

static void add(enum agent_record_kind kind, const void *data, size_t len)
{
	struct agent_record r = {.kind = kind, .len = (uint32_t)len};

	assert_int_equal(buf_append(&answer, &r, sizeof(r)), 0);
	assert_int_equal(buf_append(&answer, data, len), 0);
}

static void add_entry(struct agent_entry e, const char *path, const char *target)
{
	char bytes[20000];
	size_t n = strlen(path), m = strlen(target);

	e.path_len = (uint32_t)n;
	e.link_len = (uint32_t)m;
	memcpy(bytes, &e, sizeof(e));
	memcpy(bytes + sizeof(e), path, n);
	memcpy(bytes + sizeof(e) + n, target, m);
	add(RECORD_ENTRY, bytes, sizeof(e) + n + m);
}

static void add_end(void)
{
	add(RECORD_END, &(struct agent_end){0}, sizeof(struct agent_end));
}

/* The client's view of the answer, which comes in pieces of so many bytes. */
static void hear(struct agent_ask ask, size_t piece)
{
	struct session s = {.out = &got};
	struct cay_error err;
	int to[2], from[2];
	pid_t pid;

	outcome_done(&got);
	got.data.max = 1 << 20;
	if (!ask.path)
		ask.path = "asked";
	assert_int_equal(pipe2(to, O_CLOEXEC), 0);
	assert_int_equal(pipe2(from, O_CLOEXEC), 0);
	pid = fork_bound();
	if (pid == 0) {
		for (size_t at = 0; at < answer.len; at += piece)
			if (fd_write_all(from[1], answer.data + at,
					 size_min(piece, answer.len - at)) < 0)
				break;
		_exit(0);
	}
	(void)close(to[0]);
	(void)close(from[1]);
	s.loop = loop_new();
	s.call = agent_call_new(s.loop, to[1], from[0], &ask, &test_sink, &s, &err);
	assert_non_null(s.call);
	if (ask.op == AGENT_WRITE)
		agent_call_end(s.call);
	assert_int_equal(loop_run(s.loop), 0);
	agent_call_free(s.call);
	loop_free(s.loop);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_true(got.done);
	buf_done(&answer);
}

static int start(void **state _unused_)
{
	answer = BUF(4 << 20);
	return 0;
}

static const struct agent_entry file = {.type = AGENT_FILE, .mode = 0644, .size = 5};
static const struct agent_entry dir = {.type = AGENT_DIR, .mode = 0755};
static const struct agent_ask read_ask = {.op = AGENT_READ, .length = AGENT_TO_END};
static const struct agent_ask list_ask = {.op = AGENT_LIST, .count = 2, .depth = 1};
static const struct agent_ask tree_ask = {.op = AGENT_TREE_OUT, .length = 7};

static void good_answers_in_any_pieces(void **state _unused_)
{
	for (size_t piece = 1; piece < 200; piece += 7) {
		answer = BUF(4 << 20);
		add_entry(file, "", "");
		add(RECORD_DATA, "he", 2);
		add(RECORD_DATA, "", 0);
		add(RECORD_DATA, "llo", 3);
		add_end();
		hear(read_ask, piece);
		ok();
		assert_string_equal(buf_str(&got.data), "hello");
		assert_string_equal(got.files[0].path, "asked");
	}
}

static void refused(struct agent_ask ask, const char *word)
{
	hear(ask, 4096);
	fails(CAY_E_INTERNAL, word);
	answer = BUF(4 << 20);
}

static void answers_that_break_the_rules(void **state _unused_)
{
	static const char *const bad_paths[] = {"",     "/etc",  "..", "a/..", "../a",
						"a//b", "a/./b", ".",  "a/",   "/tmp/x"};
	struct agent_entry odd = file;

	refused(read_ask, "without an answer");
	add_end();
	answer.len -= 3;
	refused(read_ask, "without an answer");
	add(RECORD_DATA, "x", 1); /* of no file */
	refused(read_ask, "more bytes");
	add_entry(file, "", "");
	add(RECORD_DATA, "more than five", 14);
	refused(read_ask, "more bytes");
	add_entry(file, "", "");
	add_entry(file, "", "");
	refused(read_ask, "can't be");
	add_entry(file, "name", "");
	refused(read_ask, "can't be");
	add_entry(dir, "", "");
	refused(read_ask, "can't be");
	add_entry(file, "a", "");
	add_entry(file, "b", "");
	add_entry(file, "c", "");
	refused(list_ask, "can't be"); /* two were asked for */
	add_entry(file, "a", "");
	add(RECORD_DATA, "x", 1);
	refused(list_ask, "more bytes");
	for (size_t i = 0; i < ARRAY_LEN(bad_paths); i++) {
		add_entry(file, bad_paths[i], "");
		refused(list_ask, "can't be");
		add_entry(file, bad_paths[i], "");
		refused(tree_ask, "can't be");
	}
	add_entry(file, "a", "");
	add(RECORD_DATA, "12345", 5);
	add_entry(file, "b", "");
	add(RECORD_DATA, "12345", 5);
	refused(tree_ask, "more bytes"); /* seven in all */
	odd.type = 99;
	add_entry(odd, "a", "");
	refused(list_ask, "can't be");
	odd.type = AGENT_HARD_LINK;
	add_entry(odd, "a", "b");
	refused(list_ask, "can't be");
	odd = file;
	odd.mode = 0177777;
	add_entry(odd, "a", "");
	refused(list_ask, "can't be");
	odd = file;
	odd.size = UINT64_MAX;
	add_entry(odd, "a", "");
	refused(list_ask, "can't be");
	add_entry(file, "a", "target of a file");
	refused(list_ask, "can't be");
	add(RECORD_ENTRY, "x", 1);
	refused(list_ask, "half an entry");
	add(RECORD_ENTRY, &file, sizeof(file)); /* lengths are 0, and there is a byte more */
	answer.data[4]++;
	assert_int_equal(buf_append(&answer, "x", 1), 0);
	refused(list_ask, "can't be");
	add((enum agent_record_kind)77, "x", 1);
	refused(read_ask, "no record");
	add(RECORD_EVENT, "x", 1);
	refused(read_ask, "event");
	add(RECORD_ERROR, "x", 1);
	refused(read_ask, "half an error");
	add_end();
	refused((struct agent_ask){.op = AGENT_TREE_IN}, "too early");
}

static void errors_are_mended(void **state _unused_)
{
	struct cay_error err;

	memset(&err, 'x', sizeof(err));
	err.text[0] = '\033';
	add(RECORD_ERROR, &err, sizeof(err));
	hear(read_ask, 100);
	fails(CAY_E_INTERNAL, "?xxx");
	answer = BUF(4 << 20);
	(void)cay_fail(&err, CAY_E_UNAUTHORIZED, 0, "your key");
	add(RECORD_ERROR, &err, sizeof(err));
	hear(read_ask, 100);
	fails(CAY_E_INTERNAL, "your key");
}

static void a_silent_agent_is_not_waited_for(void **state _unused_)
{
	const struct agent_ask ask = {.op = AGENT_STAT, .path = "x", .idle_ms = 50};
	struct session s = {.out = &got};
	struct cay_error err;
	int to[2], from[2];

	outcome_done(&got);
	assert_int_equal(pipe2(to, O_CLOEXEC), 0);
	assert_int_equal(pipe2(from, O_CLOEXEC), 0);
	s.loop = loop_new();
	s.call = agent_call_new(s.loop, to[1], from[0], &ask, &test_sink, &s, &err);
	assert_int_equal(loop_run(s.loop), 0);
	agent_call_free(s.call);
	loop_free(s.loop);
	(void)close(to[0]);
	(void)close(from[1]);
	fails(CAY_E_INTERNAL, "does not answer");
}

/* Freed in the middle of each of its callbacks. */
struct leaver {
	struct session s; /* its first */
	const char *at;
};

static void leave_at(struct leaver *l, const char *where)
{
	if (strcmp(l->at, where) != 0)
		return;
	agent_call_free(l->s.call);
	l->s.call = NULL;
	loop_stop(l->s.loop);
}

static void leave_entry(void *ctx, const struct agent_file *f _unused_)
{
	leave_at(ctx, "entry");
}

static void leave_data(void *ctx, const void *data _unused_, size_t len _unused_)
{
	leave_at(ctx, "data");
}

static void leave_done(void *ctx, const struct agent_end *end _unused_,
		       const struct cay_error *err _unused_)
{
	leave_at(ctx, "done");
}

static void calls_can_be_left_anywhere(void **state _unused_)
{
	static const struct agent_sink sink = {
		.entry = leave_entry, .data = leave_data, .done = leave_done};
	static const char *const places[] = {"entry", "data", "done"};

	for (size_t i = 0; i < ARRAY_LEN(places); i++) {
		struct leaver l = {.at = places[i]};
		struct agent_ask ask = read_ask;
		struct cay_error err;
		int to[2], from[2];

		answer = BUF(4 << 20);
		add_entry(file, "", "");
		add(RECORD_DATA, "hello", 5);
		add_end();
		ask.path = "x";
		assert_int_equal(pipe2(to, O_CLOEXEC), 0);
		assert_int_equal(pipe2(from, O_CLOEXEC), 0);
		assert_int_equal(fd_write_all(from[1], answer.data, answer.len), 0);
		buf_done(&answer);
		l.s.loop = loop_new();
		l.s.call = agent_call_new(l.s.loop, to[1], from[0], &ask, &sink, &l, &err);
		assert_int_equal(loop_run(l.s.loop), 0);
		assert_null(l.s.call);
		loop_free(l.s.loop);
		(void)close(to[0]);
		(void)close(from[1]);
	}
}

/*
 * Backpressure: one that is paused holds back 300 MB at the price of a pipe, and
 * what is sent to one that does not read is not taken.
 */
struct slow {
	struct session s; /* its first */
	struct loop_timer timer;
	unsigned pauses;
};

static void go_on(struct loop_timer *t)
{
	struct slow *w = t->ctx;

	agent_call_pause(w->s.call, false);
}

static void pause_often(void *ctx, const void *data _unused_, size_t len)
{
	struct slow *w = ctx;

	w->s.came += len;
	if (w->s.came / (32u << 20) <= w->pauses)
		return;
	w->pauses++;
	agent_call_pause(w->s.call, true);
	assert_int_equal(loop_after(w->s.loop, &w->timer, 5), 0);
}

static long peak_kb(void)
{
	struct rusage u;

	(void)getrusage(RUSAGE_SELF, &u);
	return u.ru_maxrss;
}

static void long_files_take_no_memory(void **state _unused_)
{
	static const struct agent_sink sink = {
		.entry = on_entry, .data = pause_often, .done = on_done};
	const struct agent_ask ask = {
		.op = AGENT_READ, .path = "big", .length = AGENT_TO_END, .idle_ms = 20000};
	struct slow w = {.s.out = &got, .timer = {.fire = go_on, .ctx = &w}};
	struct cay_error err;
	long before = peak_kb();
	int to, from;
	pid_t pid;

	assert_int_equal(begin(NULL), 0);
	make("ws/big", "x");
	assert_int_equal(truncate("ws/big", 300 << 20), 0);
	outcome_done(&got);
	pid = start_agent(base, &to, &from);
	w.s.loop = loop_new();
	w.s.call = agent_call_new(w.s.loop, to, from, &ask, &sink, &w, &err);
	assert_int_equal(loop_run(w.s.loop), 0);
	agent_call_free(w.s.call);
	loop_free(w.s.loop);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	ok();
	assert_int_equal(w.s.came, 300 << 20);
	assert_true(w.pauses >= 9);
	assert_true(peak_kb() - before < 4096);
}

static void no_more_is_taken_than_has_place(void **state _unused_)
{
	static char body[1 << 20];
	const struct agent_ask ask = {.op = AGENT_WRITE, .path = "x"};
	struct session s = {.out = &got};
	struct cay_error err;
	int to[2], from[2];
	size_t n;

	assert_int_equal(pipe2(to, O_CLOEXEC), 0);
	assert_int_equal(pipe2(from, O_CLOEXEC), 0);
	s.loop = loop_new();
	s.call = agent_call_new(s.loop, to[1], from[0], &ask, &test_sink, &s, &err);
	n = agent_call_send(s.call, body, sizeof(body));
	n += agent_call_send(s.call, body, sizeof(body));
	assert_true(n < 300000);
	agent_call_free(s.call);
	loop_free(s.loop);
	(void)close(to[0]);
	(void)close(from[1]);
}

#define TEST(f) cmocka_unit_test_setup(f, start)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(good_answers_in_any_pieces),
		TEST(answers_that_break_the_rules),
		TEST(errors_are_mended),
		TEST(a_silent_agent_is_not_waited_for),
		TEST(calls_can_be_left_anywhere),
		TEST(long_files_take_no_memory),
		TEST(no_more_is_taken_than_has_place),
	};

	return cmocka_run_group_tests(tests, make_top, remove_top);
}
