#include "cli/output.h"

#include "base/attr.h"
#include "base/clock.h"
#include "base/fd.h"
#include "core/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

/*
 * Theory: each test forks a child whose stdout and stderr are pipes (or a
 * terminal), feeds an output there as an engine would, and looks at what comes
 * out at the other ends. In the child cmocka's assertions can't be used: MUST()
 * says on the real stderr which line failed, and the parent sees the exit code.
 */
static int real_stderr = -1;

#define MUST(c)                                                                            \
	do {                                                                               \
		if (!(c)) {                                                                \
			(void)dprintf(real_stderr, "%s:%d: %s\n", __FILE__, __LINE__, #c); \
			_exit(1);                                                          \
		}                                                                          \
	} while (0)

typedef void child_fn(void);

struct child {
	pid_t pid;
	int ends[STREAMS];
	struct buf got[STREAMS];
};

static void start_on(struct child *c, child_fn *fn, int out, int err)
{
	c->pid = fork();
	assert_true(c->pid >= 0);
	if (c->pid == 0) {
		(void)signal(SIGPIPE, SIG_IGN);
		(void)alarm(30);
		fd_closep(&c->ends[STREAM_STDOUT]);
		fd_closep(&c->ends[STREAM_STDERR]);
		MUST(dup2(out, 1) == 1 && dup2(err, 2) == 2);
		(void)close(out);
		(void)close(err);
		fn();
		_exit(0);
	}
	(void)close(out);
	(void)close(err);
}

static void start(struct child *c, child_fn *fn)
{
	int p[STREAMS][2];

	*c = (struct child){.got = {BUF(256u << 20), BUF(256u << 20)}};
	for (int s = 0; s < STREAMS; s++) {
		assert_int_equal(pipe2(p[s], O_CLOEXEC), 0);
		c->ends[s] = p[s][0];
	}
	start_on(c, fn, p[STREAM_STDOUT][1], p[STREAM_STDERR][1]);
}

/* Reads both streams to their ends. */
static void read_ends(struct child *c)
{
	while (c->ends[0] >= 0 || c->ends[1] >= 0) {
		struct pollfd f[STREAMS];

		for (int s = 0; s < STREAMS; s++)
			f[s] = (struct pollfd){.fd = c->ends[s], .events = POLLIN};
		assert_true(poll(f, STREAMS, 30000) > 0);
		for (int s = 0; s < STREAMS; s++) {
			char data[65536];
			ssize_t n = f[s].revents ? read(c->ends[s], data, sizeof(data)) : -1;

			if (n > 0)
				assert_int_equal(buf_append(&c->got[s], data, (size_t)n), 0);
			else if (f[s].revents)
				fd_closep(&c->ends[s]); /* EOF; a terminal says EIO */
		}
	}
}

static void finish(struct child *c)
{
	int status;

	read_ends(c);
	assert_int_equal(waitpid(c->pid, &status, 0), c->pid);
	assert_int_equal(status, 0);
}

static void done(struct child *c)
{
	for (int s = 0; s < STREAMS; s++) {
		fd_closep(&c->ends[s]);
		buf_done(&c->got[s]);
	}
}

static void check_text(const struct child *c, enum stream s, const char *text)
{
	assert_string_equal(buf_str(&c->got[s]), text);
}

/* As an engine does: hands over until all is taken, waits where it is told to. */
static ssize_t feed(struct output *o, enum stream s, const char *data, size_t len)
{
	struct sink sink = output_sink(o);
	size_t at = 0;

	while (at < len) {
		ssize_t n = sink.output(sink.ctx, s, data + at, len - at);
		struct pollfd f = {.fd = sink.wait_fd[s], .events = POLLOUT};

		if (n < 0)
			return n;
		MUST((size_t)n <= len - at);
		at += (size_t)n;
		if (n == 0)
			MUST(poll(&f, 1, 20000) == 1);
	}
	return (ssize_t)len;
}

static void feed_text(struct output *o, enum stream s, const char *text)
{
	MUST(feed(o, s, text, strlen(text)) == (ssize_t)strlen(text));
}

static char *pattern(size_t len)
{
	char *data = malloc(len);

	for (size_t i = 0; data && i < len; i++)
		data[i] = (char)('a' + (i / 7 + i / 1000) % 26);
	return data;
}

static void pass_child(void)
{
	struct output o;

	output_init(&o, false, 0);
	feed_text(&o, STREAM_STDOUT, "out1 ");
	feed_text(&o, STREAM_STDERR, "err1 \x1b[2J\xff");
	MUST(feed(&o, STREAM_STDOUT, "a\0b", 3) == 3);
	output_finish(&o);
	MUST(!output_failed(&o));
	output_done(&o);
}

static void passes_bytes_as_they_come(void **state)
{
	struct child c;

	(void)state;
	start(&c, pass_child);
	finish(&c);
	assert_int_equal(c.got[STREAM_STDOUT].len, 8);
	assert_memory_equal(c.got[STREAM_STDOUT].data, "out1 a\0b", 8);
	check_text(&c, STREAM_STDERR, "err1 \x1b[2J\xff"); /* no terminal: nothing is changed */
	done(&c);
}

enum { BIG = 5 << 20 };

static void big_child(void)
{
	char *data = pattern(BIG);
	struct output o;

	MUST(data);
	output_init(&o, false, 0);
	MUST(feed(&o, STREAM_STDOUT, data, BIG) == BIG);
	output_finish(&o);
	output_done(&o);
	free(data);
}

/* Beyond what a pipe holds, with a reader that begins late. */
static void passes_much(void **state)
{
	char *data = pattern(BIG);
	struct child c;

	(void)state;
	start(&c, big_child);
	(void)poll(NULL, 0, 100);
	finish(&c);
	assert_int_equal(c.got[STREAM_STDOUT].len, BIG);
	assert_memory_equal(c.got[STREAM_STDOUT].data, data, BIG);
	check_text(&c, STREAM_STDERR, "");
	done(&c);
	free(data);
}

static uint64_t limit;
static const char *text_to_feed;
static size_t step;

static void limited_child(void)
{
	size_t len = strlen(text_to_feed);
	struct output o;

	output_init(&o, false, limit);
	for (size_t at = 0; at < len; at += step)
		MUST(feed(&o, STREAM_STDOUT, text_to_feed + at, size_min(step, len - at)) >= 0);
	output_finish(&o);
	output_done(&o);
}

static void check_limited(uint64_t limit_bytes, const char *text, const char *out, const char *err)
{
	for (step = 1; step <= 32; step += 5) {
		struct child c;

		limit = limit_bytes;
		text_to_feed = text;
		start(&c, limited_child);
		finish(&c);
		check_text(&c, STREAM_STDOUT, out);
		check_text(&c, STREAM_STDERR, err);
		done(&c);
	}
}

static void limit_keeps_head_and_tail(void **state)
{
	(void)state;
	check_limited(10, "", "", "");
	check_limited(10, "0123", "0123", "");
	check_limited(10, "0123456789", "0123456789", "");
	check_limited(10, "0123456789a", "012346789a",
		      "cay: 1 bytes of stdout were dropped before the last 5\n");
	check_limited(10, "0123456789abcdefghij", "01234fghij",
		      "cay: 10 bytes of stdout were dropped before the last 5\n");
	check_limited(3, "abcdef", "abf",
		      "cay: 3 bytes of stdout were dropped before the last 1\n");
	check_limited(2, "abc", "ac", "cay: 1 bytes of stdout were dropped before the last 1\n");
}

static void both_child(void)
{
	struct output o;

	output_init(&o, false, 4);
	feed_text(&o, STREAM_STDERR, "EEEEEFG");
	feed_text(&o, STREAM_STDOUT, "xxxy");
	output_finish(&o);
	output_done(&o);
}

/* The limit is each stream's own. */
static void limits_are_apart(void **state)
{
	struct child c;

	(void)state;
	start(&c, both_child);
	finish(&c);
	check_text(&c, STREAM_STDOUT, "xxxy");
	check_text(&c, STREAM_STDERR,
		   "EEFGcay: 3 bytes of stderr were dropped before the last 2\n");
	done(&c);
}

enum { LIMIT_BIG = 400000 };

static void late_child(void)
{
	char *data = pattern(BIG);
	struct output o;

	MUST(data);
	output_init(&o, false, LIMIT_BIG);
	MUST(feed(&o, STREAM_STDOUT, data, BIG) == BIG);
	output_finish(&o);
	output_done(&o);
	free(data);
}

static void check_big_limited(const struct child *c)
{
	char *data = pattern(BIG);

	assert_int_equal(c->got[STREAM_STDOUT].len, LIMIT_BIG);
	assert_memory_equal(c->got[STREAM_STDOUT].data, data, LIMIT_BIG / 2);
	assert_memory_equal(c->got[STREAM_STDOUT].data + LIMIT_BIG / 2, data + BIG - LIMIT_BIG / 2,
			    LIMIT_BIG / 2);
	free(data);
}

/* Short writes of the head must be counted right. */
static void limit_and_a_late_reader(void **state)
{
	struct child c;

	(void)state;
	start(&c, late_child);
	(void)poll(NULL, 0, 200);
	finish(&c);
	check_big_limited(&c);
	done(&c);
}

static void late_nonblock_child(void)
{
	MUST(fd_set_nonblock(1, 1) == 0);
	late_child();
}

/* Whoever gave us the pipe may have made it non-blocking: the tail arrives all the same. */
static void nonblocking_stdout(void **state)
{
	struct child c;

	(void)state;
	start(&c, late_nonblock_child);
	(void)poll(NULL, 0, 200);
	finish(&c);
	check_big_limited(&c);
	done(&c);
}

static void slow_child(void)
{
	char *data = pattern(1 << 20);
	uint64_t begin = clock_now_ns();
	struct output o;
	struct sink sink;
	ssize_t first;

	MUST(data);
	output_init(&o, false, 0);
	sink = output_sink(&o);
	MUST(sink.wait_fd[STREAM_STDOUT] == 1 && sink.wait_fd[STREAM_STDERR] == 2);
	first = sink.output(sink.ctx, STREAM_STDOUT, data, 1 << 20);
	MUST(first > 0 && first < 1 << 20);
	MUST(sink.output(sink.ctx, STREAM_STDOUT, data, 1 << 20) == 0);
	/* The other stream is not held by it. */
	MUST(sink.output(sink.ctx, STREAM_STDERR, "x", 1) == 1);
	MUST(clock_ms_since(begin) < 5000);
	MUST(!(fcntl(1, F_GETFL) & O_NONBLOCK)); /* it is shared with others: left as it was */
	_exit(0);
}

static void slow_readers_do_not_block(void **state)
{
	struct child c;
	int status;

	(void)state;
	start(&c, slow_child);
	/* Nobody reads until it has ended. */
	assert_int_equal(waitpid(c.pid, &status, 0), c.pid);
	assert_int_equal(status, 0);
	read_ends(&c);
	check_text(&c, STREAM_STDERR, "x");
	done(&c);
}

static int gate[2];

static void broken_child(void)
{
	struct output o;
	char c;

	(void)close(gate[1]);
	MUST(read(gate[0], &c, 1) == 0); /* until the reader is gone */
	output_init(&o, false, limit);
	MUST(feed(&o, STREAM_STDOUT, "x", 1) == -EPIPE);
	feed_text(&o, STREAM_STDERR, "on");
	output_finish(&o);
	MUST(!output_failed(&o)); /* a reader that left is no failure of ours */
	output_done(&o);
}

static void broken_pipe(void **state)
{
	(void)state;
	for (limit = 0; limit <= 10; limit += 10) {
		struct child c;

		assert_int_equal(pipe2(gate, O_CLOEXEC), 0);
		start(&c, broken_child);
		fd_closep(&c.ends[STREAM_STDOUT]);
		(void)close(gate[0]);
		(void)close(gate[1]);
		finish(&c);
		check_text(&c, STREAM_STDERR, "on");
		done(&c);
	}
}

static void full_child(void)
{
	struct output o;

	output_init(&o, false, 0);
	MUST(feed(&o, STREAM_STDOUT, "x", 1) == -EPIPE);
	output_finish(&o);
	MUST(output_failed(&o));
	output_done(&o);
}

static void full_disk(void **state)
{
	struct child c = {.ends = {-1, -1}, .got = {BUF(100), BUF(1000)}};
	int p[2], full = open("/dev/full", O_WRONLY | O_CLOEXEC);

	(void)state;
	assert_true(full >= 0);
	assert_int_equal(pipe2(p, O_CLOEXEC), 0);
	c.ends[STREAM_STDERR] = p[0];
	start_on(&c, full_child, full, p[1]);
	finish(&c);
	check_text(&c, STREAM_STDERR, "cay: standard output: No space left on device\n");
	done(&c);
}

/* Feeds until it is told to stop; returns how many bytes were taken before that. */
static uint64_t flood(struct output *o, enum stream s)
{
	static char data[1 << 20];
	uint64_t taken = 0;

	memset(data, 'f', sizeof(data));
	for (;;) {
		ssize_t n = feed(o, s, data, sizeof(data));

		if (n == -EFBIG)
			return taken;
		MUST(n == (ssize_t)sizeof(data));
		taken += sizeof(data);
		MUST(taken < 4 * FLOOD_BYTES);
	}
}

static void capture_child(void)
{
	struct buf text = BUF(1 << 20);
	struct output o;
	uint64_t n;

	output_init(&o, true, 10);
	feed_text(&o, STREAM_STDOUT, "01234");
	n = flood(&o, STREAM_STDOUT);
	MUST(n >= FLOOD_BYTES && n <= FLOOD_BYTES + (2 << 20));
	MUST(capture_text(&o.kept[STREAM_STDOUT], &text) == 0);
	MUST(strcmp(buf_str(&text), "01234fffff") == 0);
	MUST(capture_truncated(&o.kept[STREAM_STDOUT]));
	/* The other stream is not concerned. */
	feed_text(&o, STREAM_STDERR, "err");
	MUST(!capture_truncated(&o.kept[STREAM_STDERR]));
	output_finish(&o);
	buf_done(&text);
	output_done(&o);
}

static void capture_floods(void **state)
{
	struct child c;

	(void)state;
	start(&c, capture_child);
	finish(&c);
	check_text(&c, STREAM_STDOUT, ""); /* nothing passes through */
	check_text(&c, STREAM_STDERR, "");
	done(&c);
}

static void limited_flood_child(void)
{
	struct output o;
	uint64_t n;

	output_init(&o, false, 10);
	feed_text(&o, STREAM_STDOUT, "01234");
	n = flood(&o, STREAM_STDOUT);
	MUST(n >= FLOOD_BYTES && n <= FLOOD_BYTES + (2 << 20));
	output_finish(&o);
	output_done(&o);
}

static void limited_floods(void **state)
{
	struct child c;

	(void)state;
	start(&c, limited_flood_child);
	finish(&c);
	check_text(&c, STREAM_STDOUT, "01234fffff");
	assert_non_null(strstr(buf_str(&c.got[STREAM_STDERR]), "bytes of stdout were dropped"));
	done(&c);
}

/* stdout is a terminal (raw: bytes come out as they went in), stderr a pipe. */
static void start_on_terminal(struct child *c, child_fn *fn)
{
	int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC), slave, p[2];
	struct termios t;

	assert_true(master >= 0);
	assert_int_equal(grantpt(master) | unlockpt(master), 0);
	slave = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
	assert_true(slave >= 0);
	assert_int_equal(tcgetattr(slave, &t), 0);
	cfmakeraw(&t);
	assert_int_equal(tcsetattr(slave, TCSANOW, &t), 0);
	assert_int_equal(pipe2(p, O_CLOEXEC), 0);
	*c = (struct child){.ends = {master, p[0]}, .got = {BUF(256u << 20), BUF(256u << 20)}};
	start_on(c, fn, slave, p[1]);
}

static void terminal_child(void)
{
	struct output o;

	output_init(&o, false, 0);
	feed_text(&o, STREAM_STDOUT, "a\x1b[3");
	feed_text(&o, STREAM_STDOUT, "1mred\x1b[0m\x1b[2J\x1b]0;title\a\n\xc3");
	feed_text(&o, STREAM_STDOUT, "\xa4");
	feed_text(&o, STREAM_STDERR, "\x1b[2J");
	feed_text(&o, STREAM_STDOUT, "\x1b[");
	output_finish(&o);
	output_done(&o);
}

static void terminals_are_protected(void **state)
{
	struct child c;
	const char *out;

	(void)state;
	start_on_terminal(&c, terminal_child);
	finish(&c);
	out = buf_str(&c.got[STREAM_STDOUT]);
	assert_int_equal(strncmp(out, "a\x1b[31mred\x1b[0m", 13),
			 0); /* colour passes, cut anywhere */
	assert_null(strstr(out, "\x1b[2J"));
	assert_null(strstr(out, "\x1b]"));
	assert_non_null(strstr(out, "^[[2J"));
	assert_non_null(strstr(out, "\n\xc3\xa4"));
	assert_non_null(strstr(out, "\xc3\xa4^[[")); /* what was held back comes at the end */
	check_text(&c, STREAM_STDERR, "\x1b[2J");    /* a pipe is no terminal */
	done(&c);
}

enum { TERMINAL_LIMIT = 6 << 20, TERMINAL_BYTES = 7 << 20 };

static void terminal_tail_child(void)
{
	char *data = pattern(TERMINAL_BYTES);
	struct output o;

	MUST(data);
	output_init(&o, false, TERMINAL_LIMIT);
	MUST(feed(&o, STREAM_STDOUT, data, TERMINAL_BYTES) == TERMINAL_BYTES);
	output_finish(&o);
	output_done(&o);
	free(data);
}

/* The last half of a large limit reaches a terminal as it reaches a pipe. */
static void terminals_get_the_whole_tail(void **state)
{
	char *data = pattern(TERMINAL_BYTES);
	struct child c;

	(void)state;
	start_on_terminal(&c, terminal_tail_child);
	finish(&c);
	assert_int_equal(c.got[STREAM_STDOUT].len, TERMINAL_LIMIT);
	assert_memory_equal(c.got[STREAM_STDOUT].data + TERMINAL_LIMIT / 2,
			    data + TERMINAL_BYTES - TERMINAL_LIMIT / 2, TERMINAL_LIMIT / 2);
	done(&c);
	free(data);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(passes_bytes_as_they_come),
		cmocka_unit_test(passes_much),
		cmocka_unit_test(limit_keeps_head_and_tail),
		cmocka_unit_test(limits_are_apart),
		cmocka_unit_test(limit_and_a_late_reader),
		cmocka_unit_test(nonblocking_stdout),
		cmocka_unit_test(slow_readers_do_not_block),
		cmocka_unit_test(broken_pipe),
		cmocka_unit_test(full_disk),
		cmocka_unit_test(capture_floods),
		cmocka_unit_test(limited_floods),
		cmocka_unit_test(terminals_are_protected),
		cmocka_unit_test(terminals_get_the_whole_tail),
	};

	real_stderr = fcntl(2, F_DUPFD_CLOEXEC, 10);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
