/*
 * watch_support.h: a program to be watched, and a sink that can be slow, broken or overfull.
 */
#pragma once

#include "engine/watch.h"

#include "base/attr.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "engine/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

/*
 * Theory: the "program" is a forked child with pipes as its 0, 1 and 2, and a
 * group of its own, which is what the watch kills. What it wrote arrives in
 * got[], by way of a sink that each test can make slow, broken or overfull.
 */
enum sink_mode {
	TAKE_ALL,
	TAKE_LITTLE, /* one byte at a time */
	TAKE_LATE,   /* nothing before open_ns */
	TAKE_NEVER,
	TAKE_BROKEN,  /* stdout: nobody reads */
	TAKE_FLOODED, /* past 1000 bytes */
};

typedef void program_fn(void);

static struct {
	pid_t pid;
	int pidfd;
	bool no_kill; /* the program is out of our reach */
	int kills;
	uint64_t cpu_ms;
	enum sink_mode mode;
	uint64_t open_ns;
	int wait[2]; /* a pipe: full, and so not writable, while the sink takes nothing */
	struct buf got[STREAMS];
} t;

static struct limits limits;
static struct watch w;
static struct watched seen;
static double took_ms;

static inline int begin(void **state)
{
	(void)state;
	memset(&t, 0, sizeof(t));
	t.pidfd = t.wait[0] = t.wait[1] = -1;
	for (int s = 0; s < STREAMS; s++)
		t.got[s] = BUF(64u << 20);
	limits = (struct limits){.timeout_ms = 20000, .memory_bytes = 512 << 20};
	w = (struct watch){.limits = &limits,
			   .stdin_fd = -1,
			   .stdin_pipe = -1,
			   .output = {-1, -1},
			   .cancel_fd = -1,
			   .oom_event = -1,
			   .alive_fd = -1};
	return 0;
}

static inline int end(void **state)
{
	(void)state;
	if (t.pid > 0) {
		(void)kill(-t.pid, SIGKILL);
		while (waitpid(-t.pid, NULL, 0) > 0)
			;
	}
	fd_closep(&t.pidfd);
	fd_closep(&t.wait[0]);
	fd_closep(&t.wait[1]);
	fd_closep(&w.cancel_fd);
	fd_closep(&w.oom_event);
	fd_closep(&w.stdin_fd);
	for (int s = 0; s < STREAMS; s++)
		buf_done(&t.got[s]);
	return 0;
}

static inline void kill_program(void *ctx)
{
	(void)ctx;
	t.kills++;
	if (!t.no_kill)
		(void)kill(-t.pid, SIGKILL);
}

static inline uint64_t cpu_ms_of(void *ctx)
{
	(void)ctx;
	return t.cpu_ms += 10;
}

static inline ssize_t sink_output(void *ctx, enum stream s, const char *data, size_t len)
{
	(void)ctx;
	if (t.mode == TAKE_BROKEN && s == STREAM_STDOUT)
		return -EPIPE;
	if (t.mode == TAKE_NEVER || (t.mode == TAKE_LATE && clock_now_ns() < t.open_ns))
		return 0;
	if (t.mode == TAKE_LITTLE)
		len = 1;
	if (t.mode == TAKE_FLOODED && t.got[s].len + len > 1000)
		return -EFBIG;
	assert_int_equal(buf_append(&t.got[s], data, len), 0);
	return (ssize_t)len;
}

/* Starts the program; stdin_fd -1: it has none. */
static inline void start(program_fn *fn, int stdin_fd)
{
	int p[3][2];

	for (int i = 0; i < 3; i++)
		assert_int_equal(pipe2(p[i], O_CLOEXEC), 0);
	t.pid = fork();
	assert_true(t.pid >= 0);
	if (t.pid == 0) {
		(void)setpgid(0, 0);
		(void)signal(SIGPIPE, SIG_DFL);
		(void)alarm(60);
		if (dup2(p[0][0], 0) < 0 || dup2(p[1][1], 1) < 0 || dup2(p[2][1], 2) < 0)
			_exit(99);
		(void)sys_close_range(3, ~0u, 0);
		fn();
		_exit(0);
	}
	(void)setpgid(t.pid, t.pid);
	(void)close(p[0][0]);
	(void)close(p[1][1]);
	(void)close(p[2][1]);
	t.pidfd = sys_pidfd_open(t.pid);
	assert_true(t.pidfd >= 0);
	w.alive_fd = t.pidfd;
	w.stdin_fd = stdin_fd;
	w.stdin_pipe = p[0][1];
	if (stdin_fd < 0)
		fd_closep(&w.stdin_pipe);
	else
		assert_int_equal(fd_set_nonblock(p[0][1], 1), 0);
	w.output[STREAM_STDOUT] = p[1][0];
	w.output[STREAM_STDERR] = p[2][0];
	for (int s = 0; s < STREAMS; s++)
		assert_int_equal(fd_set_nonblock(w.output[s], 1), 0);
	w.kill = kill_program;
	w.sink.output = sink_output;
	w.sink.wait_fd[STREAM_STDOUT] = w.sink.wait_fd[STREAM_STDERR] =
		t.wait[1] >= 0 ? t.wait[1] : open("/dev/null", O_WRONLY | O_CLOEXEC);
}

/* The sink takes nothing before ms have passed; until then its fd is not writable. */
static inline pid_t sink_opens_after(int ms)
{
	char data[4096] = "";
	pid_t pid;

	assert_int_equal(pipe2(t.wait, O_CLOEXEC), 0);
	assert_int_equal(fd_set_nonblock(t.wait[1], 1), 0);
	while (write(t.wait[1], data, sizeof(data)) > 0)
		;
	t.mode = TAKE_LATE;
	t.open_ns = clock_now_ns() + (uint64_t)ms * 1000000;
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		(void)close(t.wait[1]); /* so that it ends when the test does */
		(void)poll(NULL, 0, ms + 20);
		while (read(t.wait[0], data, sizeof(data)) > 0)
			(void)poll(NULL, 0, 1);
		_exit(0);
	}
	return pid;
}

/* Watches to the end; returns the program's wait status. */
static inline int run(void)
{
	uint64_t start_ns = clock_now_ns();
	int status = -1;

	w.start_ns = start_ns;
	watch_until_end(&w, &seen);
	took_ms = clock_ms_since(start_ns);
	assert_int_equal(w.stdin_pipe, -1);
	assert_int_equal(w.output[STREAM_STDOUT], -1);
	assert_int_equal(w.output[STREAM_STDERR], -1);
	if (t.wait[1] < 0)
		(void)close(w.sink.wait_fd[0]);
	assert_int_equal(waitpid(t.pid, &status, 0), t.pid);
	return status;
}

static inline struct result conclude(int status)
{
	struct result r = {0};

	watch_conclude(&seen, &limits, status, &r);
	return r;
}

static inline void check_got(enum stream s, const char *text)
{
	assert_string_equal(buf_str(&t.got[s]), text);
}

static inline void say(int fd, const char *text)
{
	if (fd_write_all(fd, text, strlen(text)) < 0)
		_exit(98);
}

static inline void sleep_ms(int ms)
{
	(void)poll(NULL, 0, ms);
}

static inline void talks(void)
{
	say(1, "out");
	say(2, "err");
	sleep_ms(20);
	say(1, "put");
	_exit(3);
}

static inline void talks_and_sleeps(void)
{
	say(1, "begun");
	sleep_ms(30000);
}

static inline void floods(void)
{
	static char data[65536];

	memset(data, 'x', sizeof(data));
	while (fd_write_all(1, data, sizeof(data)) == 0)
		;
	_exit(5);
}

static inline void writes_bytes(void)
{
	say(1, "one by one");
	say(2, "and here");
	_exit(0);
}
