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

static int begin(void **state)
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

static int end(void **state)
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

static void kill_program(void *ctx)
{
	(void)ctx;
	t.kills++;
	if (!t.no_kill)
		(void)kill(-t.pid, SIGKILL);
}

static uint64_t cpu_ms_of(void *ctx)
{
	(void)ctx;
	return t.cpu_ms += 10;
}

static ssize_t sink_output(void *ctx, enum stream s, const char *data, size_t len)
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
static void start(program_fn *fn, int stdin_fd)
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
static pid_t sink_opens_after(int ms)
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
static int run(void)
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

static struct result conclude(int status)
{
	struct result r = {0};

	watch_conclude(&seen, &limits, status, &r);
	return r;
}

static void check_got(enum stream s, const char *text)
{
	assert_string_equal(buf_str(&t.got[s]), text);
}

static void say(int fd, const char *text)
{
	if (fd_write_all(fd, text, strlen(text)) < 0)
		_exit(98);
}

static void sleep_ms(int ms)
{
	(void)poll(NULL, 0, ms);
}

static void talks(void)
{
	say(1, "out");
	say(2, "err");
	sleep_ms(20);
	say(1, "put");
	_exit(3);
}

static void output_and_code(void **state)
{
	struct result r;

	(void)state;
	start(talks, -1);
	r = conclude(run());
	check_got(STREAM_STDOUT, "output");
	check_got(STREAM_STDERR, "err");
	assert_int_equal(seen.cause, CAUSE_NONE);
	assert_int_equal(r.status, STATUS_FAILED);
	assert_true(r.exited);
	assert_int_equal(r.exit_code, 3);
	assert_string_equal(r.message, "exited with code 3");
	assert_true(t.kills > 0); /* what it may have left behind goes too */
}

static void fills_the_pipe(void)
{
	static char data[60000];

	memset(data, 'x', sizeof(data));
	(void)fd_write_all(1, data, sizeof(data));
	say(2, "last words");
	_exit(0);
}

/* The end of a program and of its output come in any order: no byte is lost. */
static void nothing_is_lost_at_the_end(void **state)
{
	(void)state;
	for (int i = 0; i < 50; i++) {
		(void)begin(state);
		start(fills_the_pipe, -1);
		if (i % 2)
			sleep_ms(10); /* gone before anybody looks */
		assert_int_equal(run(), 0);
		assert_int_equal(t.got[STREAM_STDOUT].len, 60000);
		check_got(STREAM_STDERR, "last words");
		t.pid = 0;
		(void)end(state);
	}
	(void)begin(state);
}

static void closes_and_stays(void)
{
	(void)close(1);
	(void)close(2);
	sleep_ms(300);
	_exit(7);
}

/* The end of the output is not the end of the program. */
static void output_ends_first(void **state)
{
	(void)state;
	start(closes_and_stays, -1);
	assert_int_equal(WEXITSTATUS(run()), 7);
	assert_true(took_ms >= 290);
}

static void leaves_somebody(void)
{
	if (fork() == 0) {
		sleep_ms(30000);
		_exit(0);
	}
	say(1, "gone");
	_exit(0);
}

static void what_is_left_goes_too(void **state)
{
	(void)state;
	start(leaves_somebody, -1);
	assert_int_equal(run(), 0);
	check_got(STREAM_STDOUT, "gone");
	assert_true(took_ms < 1500);
	assert_int_equal(seen.cause, CAUSE_NONE);
}

/* Who escaped the kill and holds the pipes can't hold us. */
static void escaped_ones_do_not_hold_us(void **state)
{
	(void)state;
	t.no_kill = true;
	start(leaves_somebody, -1);
	assert_int_equal(run(), 0);
	check_got(STREAM_STDOUT, "gone");
	assert_true(took_ms > 1000 && took_ms < 5000);
}

static void talks_and_sleeps(void)
{
	say(1, "begun");
	sleep_ms(30000);
}

static void timeout(void **state)
{
	struct result r;
	int status;

	(void)state;
	limits.timeout_ms = 300;
	start(talks_and_sleeps, -1);
	status = run();
	r = conclude(status);
	assert_int_equal(WTERMSIG(status), SIGKILL);
	assert_int_equal(seen.cause, CAUSE_TIMEOUT);
	assert_true(took_ms >= 299 && took_ms < 2000);
	check_got(STREAM_STDOUT, "begun"); /* what came before survives */
	assert_int_equal(r.status, STATUS_TIMEOUT);
	assert_true(r.timed_out);
	assert_false(r.exited);
	assert_string_equal(r.message, "time limit of 300 ms reached");
}

/* The time counts from the start given, not from the call. */
static void timeout_counts_from_the_start(void **state)
{
	uint64_t begun = clock_now_ns();

	(void)state;
	limits.timeout_ms = 500;
	start(talks_and_sleeps, -1);
	sleep_ms(600);
	w.start_ns = begun;
	watch_until_end(&w, &seen);
	assert_int_equal(seen.cause, CAUSE_TIMEOUT);
	assert_true(clock_ms_since(begun) < 1100);
	(void)close(w.sink.wait_fd[0]);
}

static void floods(void)
{
	static char data[65536];

	memset(data, 'x', sizeof(data));
	while (fd_write_all(1, data, sizeof(data)) == 0)
		;
	_exit(5);
}

static void timeout_in_a_flood(void **state)
{
	(void)state;
	limits.timeout_ms = 200;
	t.mode = TAKE_LITTLE; /* slow, yet always busy */
	start(floods, -1);
	(void)run();
	assert_int_equal(seen.cause, CAUSE_TIMEOUT);
	assert_true(took_ms < 3000);
}

/* A reader that does not read can't stop the clock. */
static void timeout_while_the_sink_waits(void **state)
{
	pid_t opener = sink_opens_after(800);

	(void)state;
	limits.timeout_ms = 200;
	start(floods, -1);
	(void)run();
	assert_int_equal(seen.cause, CAUSE_TIMEOUT);
	assert_true(took_ms < 3000);
	/* What was read and what the pipe held comes out. */
	assert_true(t.got[STREAM_STDOUT].len >= 65536);
	(void)kill(opener, SIGKILL);
	(void)waitpid(opener, NULL, 0);
}

static void writes_128k(void)
{
	static char data[131072];

	memset(data, 'x', sizeof(data));
	_exit(fd_write_all(1, data, sizeof(data)) == 0 ? 0 : 1);
}

static void check_late_sink(int ms)
{
	pid_t opener = sink_opens_after(ms);

	start(writes_128k, -1);
	assert_int_equal(run(), 0);
	assert_int_equal(seen.cause, CAUSE_NONE);
	assert_true(took_ms >= ms - 10);
	assert_int_equal(t.got[STREAM_STDOUT].len, 131072);
	(void)kill(opener, SIGKILL);
	(void)waitpid(opener, NULL, 0);
}

static void late_sink(void **state)
{
	(void)state;
	check_late_sink(500);
}

/* However late: the program is long gone, its last bytes wait in the pipe. */
static void very_late_sink(void **state)
{
	(void)state;
	check_late_sink(2600);
}

static void writes_bytes(void)
{
	say(1, "one by one");
	say(2, "and here");
	_exit(0);
}

static void sink_takes_little(void **state)
{
	(void)state;
	t.mode = TAKE_LITTLE;
	start(writes_bytes, -1);
	assert_int_equal(run(), 0);
	check_got(STREAM_STDOUT, "one by one");
	check_got(STREAM_STDERR, "and here");
}

static void writes_to_a_broken_pipe(void)
{
	(void)signal(SIGPIPE, SIG_IGN);
	say(1, "x");
	for (int i = 0; i < 500; i++) {
		if (write(1, "x", 1) < 0) {
			say(2, errno == EPIPE ? "broken" : "other");
			_exit(0);
		}
		sleep_ms(2);
	}
	_exit(1);
}

/* Nobody reads: the program finds out, and its other stream goes on. */
static void broken_sink(void **state)
{
	(void)state;
	t.mode = TAKE_BROKEN;
	start(writes_to_a_broken_pipe, -1);
	assert_int_equal(run(), 0);
	assert_int_equal(seen.cause, CAUSE_NONE);
	check_got(STREAM_STDOUT, "");
	check_got(STREAM_STDERR, "broken");
}

static void flood_is_ended(void **state)
{
	struct result r;

	(void)state;
	t.mode = TAKE_FLOODED;
	start(floods, -1);
	r = conclude(run());
	assert_int_equal(seen.cause, CAUSE_OUTPUT);
	assert_true(took_ms < 3000);
	assert_int_equal(r.status, STATUS_OUTPUT_LIMIT);
	assert_string_equal(r.message, "64 MiB of output past the limit: ended as a flood");
}

static void cpu_time(void **state)
{
	struct result r;

	(void)state;
	limits.cpu_time_ms = 50;
	w.cpu_ms = cpu_ms_of;
	start(talks_and_sleeps, -1);
	r = conclude(run());
	assert_int_equal(seen.cause, CAUSE_CPU_TIME);
	assert_true(took_ms < 2000);
	assert_true(r.timed_out);
	assert_int_equal(r.status, STATUS_TIMEOUT);
	assert_string_equal(r.message, "CPU time limit of 50 ms reached");
}

static int signal_fd(void)
{
	sigset_t set;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGUSR1);
	(void)sigaddset(&set, SIGTERM);
	assert_int_equal(sigprocmask(SIG_BLOCK, &set, NULL), 0);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* Sends us the signal after a while. */
static pid_t signal_after(int sig, int ms)
{
	pid_t us = getpid(), pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		sleep_ms(ms);
		(void)kill(us, sig);
		_exit(0);
	}
	return pid;
}

static void cancel(void **state)
{
	struct result r;
	pid_t sender;

	(void)state;
	w.cancel_fd = signal_fd();
	start(talks_and_sleeps, -1);
	sender = signal_after(SIGUSR1, 200);
	r = conclude(run());
	(void)waitpid(sender, NULL, 0);
	assert_int_equal(seen.cause, CAUSE_CANCELLED);
	assert_int_equal(seen.signal, SIGUSR1);
	assert_true(took_ms >= 150 && took_ms < 2000);
	check_got(STREAM_STDOUT, "begun");
	assert_int_equal(r.status, STATUS_CANCELLED);
	assert_int_equal(r.signal, SIGUSR1);
	assert_false(r.exited);
	assert_string_equal(r.message, "cancelled by User defined signal 1");
}

/* The first signal counts; a reader that never reads does not keep us from ending. */
static void cancel_while_the_sink_waits(void **state)
{
	pid_t opener = sink_opens_after(20000), sender;

	(void)state;
	t.mode = TAKE_NEVER;
	w.cancel_fd = signal_fd();
	start(floods, -1);
	sender = signal_after(SIGTERM, 200);
	(void)run();
	(void)waitpid(sender, NULL, 0);
	(void)kill(opener, SIGKILL);
	(void)waitpid(opener, NULL, 0);
	assert_int_equal(seen.cause, CAUSE_CANCELLED);
	assert_int_equal(seen.signal, SIGTERM);
	assert_true(took_ms < 3000);
}

static void out_of_memory(void **state)
{
	struct result r;

	(void)state;
	w.oom_event = eventfd(1, EFD_CLOEXEC);
	start(talks_and_sleeps, -1);
	r = conclude(run());
	assert_int_equal(seen.cause, CAUSE_MEMORY);
	assert_true(took_ms < 2000);
	assert_int_equal(r.status, STATUS_OUT_OF_MEMORY);
	assert_string_equal(r.message, "memory limit of 512 MiB reached");
}

enum { COMPILER_SAYS = 300000 };

/* Says much, and leaves something that holds its pipes. */
static void compiles(void)
{
	static char warnings[COMPILER_SAYS];

	memset(warnings, 'w', sizeof(warnings));
	if (fork() == 0)
		(void)pause();
	_exit(fd_write_all(2, warnings, sizeof(warnings)) < 0);
}

static void says_program(void)
{
	say(2, "program");
}

/* One is watched after the other: all that the compiler said was taken, however slowly. */
static void compiler_and_program_are_told_apart(void **state)
{
	pid_t opener;

	(void)state;
	opener = sink_opens_after(200);
	start(compiles, -1);
	assert_int_equal(run(), 0);
	assert_int_equal(seen.cause, CAUSE_NONE);
	assert_int_equal(t.got[STREAM_STDERR].len, COMPILER_SAYS);
	fd_closep(&t.pidfd);
	start(says_program, -1);
	assert_int_equal(run(), 0);
	assert_int_equal(t.got[STREAM_STDERR].len, COMPILER_SAYS + strlen("program"));
	(void)kill(opener, SIGKILL);
	(void)waitpid(opener, NULL, 0);
}

static void compiler_is_blamed(void **state)
{
	struct result r = {.compile = {.begun = true}};

	(void)state;
	seen = (struct watched){.cause = CAUSE_TIMEOUT};
	watch_conclude(&seen, &limits, -1, &r);
	assert_string_equal(r.message, "time limit of 20 s reached while compiling");
	seen = (struct watched){0};
	r = (struct result){.compile = {.begun = true, .ended = true, .wait_status = 3 << 8}};
	watch_conclude(&seen, &limits, 3 << 8, &r);
	assert_int_equal(r.status, STATUS_FAILED);
	assert_string_equal(r.message, "compiling failed with code 3");
	r = (struct result){.compile = {.begun = true, .ended = true}};
	watch_conclude(&seen, &limits, 3 << 8, &r);
	assert_string_equal(r.message, "exited with code 3");
}

enum { INPUT = 10 << 20 };

/* Reads in pieces that fit no pipe: whoever feeds it meets short writes. */
static void echoes(void)
{
	static char data[5001];
	ssize_t n;

	while ((n = read(0, data, sizeof(data))) > 0)
		if (fd_write_all(1, data, (size_t)n) < 0)
			_exit(1);
	say(2, "end");
	_exit(0);
}

static int file_of(const char *data, size_t len)
{
	char path[] = "/tmp/cay-test-watch-XXXXXX";
	int fd = mkostemp(path, O_CLOEXEC);

	assert_true(fd >= 0);
	(void)unlink(path);
	assert_int_equal(fd_write_all(fd, data, len), 0);
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	return fd;
}

/* In by one pipe, out by the other, at the same time, to the end. */
static void pumps_input(void **state)
{
	char *data = malloc(INPUT);

	(void)state;
	assert_non_null(data);
	for (size_t i = 0; i < INPUT; i++)
		data[i] = (char)(i / 3 + i / 70000);
	start(echoes, file_of(data, INPUT));
	assert_int_equal(run(), 0);
	assert_int_equal(t.got[STREAM_STDOUT].len, INPUT);
	assert_memory_equal(t.got[STREAM_STDOUT].data, data, INPUT);
	check_got(STREAM_STDERR, "end");
	assert_true(fcntl(w.stdin_fd, F_GETFD) >= 0); /* the caller's stays open */
	free(data);
}

static void empty_input_ends(void **state)
{
	(void)state;
	start(echoes, file_of("", 0));
	assert_int_equal(run(), 0);
	check_got(STREAM_STDOUT, "");
	check_got(STREAM_STDERR, "end");
}

static void closes_its_input(void)
{
	(void)close(0);
	sleep_ms(300);
	say(1, "done");
	_exit(0);
}

static double cpu_of_us(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (double)ts.tv_sec * 1000 + (double)ts.tv_nsec / 1e6;
}

/* Input that nobody wants neither ends us nor keeps us busy. */
static void unwanted_input(void **state)
{
	double cpu;

	(void)state;
	start(closes_its_input, open("/dev/zero", O_RDONLY | O_CLOEXEC));
	cpu = cpu_of_us();
	assert_int_equal(run(), 0);
	cpu = cpu_of_us() - cpu;
	check_got(STREAM_STDOUT, "done");
	assert_true(cpu < 150);
}

static void sleeps_300ms(void)
{
	sleep_ms(300);
	_exit(0);
}

/* Nor does a program that reads nothing, or a caller who types nothing. */
static void unread_input(void **state)
{
	double cpu;
	int p[2];

	(void)state;
	start(sleeps_300ms, open("/dev/zero", O_RDONLY | O_CLOEXEC));
	cpu = cpu_of_us();
	assert_int_equal(run(), 0);
	assert_true(cpu_of_us() - cpu < 150);
	(void)end(state);
	(void)begin(state);
	assert_int_equal(pipe2(p, O_CLOEXEC), 0);
	start(sleeps_300ms, p[0]);
	cpu = cpu_of_us();
	assert_int_equal(run(), 0);
	assert_true(cpu_of_us() - cpu < 150);
	assert_true(took_ms < 1500);
	(void)close(p[1]);
}

static void check_conclusion(struct watched by, int status, enum status expected, bool exited,
			     int code, int sig, const char *message)
{
	struct result r;

	seen = by;
	r = conclude(status);
	assert_int_equal(r.status, expected);
	assert_int_equal(r.exited, exited);
	assert_int_equal(r.exit_code, code);
	assert_int_equal(r.signal, sig);
	assert_int_equal(r.timed_out, expected == STATUS_TIMEOUT);
	assert_string_equal(r.message, message);
}

static void conclusions(void **state)
{
	const struct watched none = {0};
	const int killed = SIGKILL, failed = 2 << 8;

	(void)state;
	check_conclusion(none, 0, STATUS_OK, true, 0, 0, "");
	check_conclusion(none, failed, STATUS_FAILED, true, 2, 0, "exited with code 2");
	check_conclusion(none, 255 << 8, STATUS_FAILED, true, 255, 0, "exited with code 255");
	check_conclusion(none, killed, STATUS_SIGNAL, false, 0, SIGKILL,
			 "ended by signal 9 (Killed)");
	check_conclusion(none, SIGSEGV | 0x80, STATUS_SIGNAL, false, 0, SIGSEGV,
			 "ended by signal 11 (Segmentation fault)");
	check_conclusion(none, -1, STATUS_SANDBOX_ERROR, false, 0, 0, "the sandbox died");
	/* What we did counts more than how the program took it. */
	check_conclusion((struct watched){.cause = CAUSE_TIMEOUT}, killed, STATUS_TIMEOUT, false, 0,
			 0, "time limit of 20 s reached");
	check_conclusion((struct watched){.cause = CAUSE_TIMEOUT}, -1, STATUS_TIMEOUT, false, 0, 0,
			 "time limit of 20 s reached");
	check_conclusion((struct watched){.cause = CAUSE_CANCELLED, .signal = SIGINT}, killed,
			 STATUS_CANCELLED, false, 0, SIGINT, "cancelled by Interrupt");
	check_conclusion((struct watched){.cause = CAUSE_ERROR, .error = ENOMEM}, killed,
			 STATUS_SANDBOX_ERROR, false, 0, 0,
			 "ended, because its output could not be taken: Cannot allocate memory");
	/* Nothing was wrong with the output. */
	check_conclusion((struct watched){.cause = CAUSE_ERROR}, -1, STATUS_SANDBOX_ERROR, false, 0,
			 0, "ended, because its sandbox did, or could not be reached");
	/* The kernel's own CPU limit. */
	check_conclusion(none, SIGXCPU, STATUS_SIGNAL, false, 0, SIGXCPU,
			 "ended by signal 24 (CPU time limit exceeded)");
	limits.cpu_time_ms = 1000;
	check_conclusion(none, SIGXCPU, STATUS_TIMEOUT, false, 0, SIGXCPU,
			 "CPU time limit of 1 s reached");
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(output_and_code),
		TEST(nothing_is_lost_at_the_end),
		TEST(output_ends_first),
		TEST(what_is_left_goes_too),
		TEST(escaped_ones_do_not_hold_us),
		TEST(timeout),
		TEST(timeout_counts_from_the_start),
		TEST(timeout_in_a_flood),
		TEST(timeout_while_the_sink_waits),
		TEST(late_sink),
		TEST(very_late_sink),
		TEST(sink_takes_little),
		TEST(broken_sink),
		TEST(flood_is_ended),
		TEST(cpu_time),
		TEST(cancel),
		TEST(cancel_while_the_sink_waits),
		TEST(out_of_memory),
		TEST(compiler_and_program_are_told_apart),
		TEST(compiler_is_blamed),
		TEST(pumps_input),
		TEST(empty_input_ends),
		TEST(unwanted_input),
		TEST(unread_input),
		TEST(conclusions),
	};

	(void)signal(SIGPIPE, SIG_IGN);
	(void)alarm(120);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
