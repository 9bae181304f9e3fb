/* Output, time, memory and signals. */
#include "watch_support.h"

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

static int clears;

static void clear_left(void *ctx)
{
	clears++;
	kill_program(ctx);
}

/* Where there is a way of its own for it. */
static void what_is_left_is_cleared(void **state)
{
	(void)state;
	clears = 0;
	w.clear = clear_left;
	start(leaves_somebody, -1);
	assert_int_equal(run(), 0);
	assert_int_equal(clears, 1);
	assert_int_equal(t.kills, 1);
	assert_true(took_ms < 1500);
}

/* That one is not for ending the program. */
static void killed_before_it_is_cleared(void **state)
{
	(void)state;
	clears = 0;
	w.clear = clear_left;
	limits.timeout_ms = 100;
	start(talks_and_sleeps, -1);
	assert_int_equal(WTERMSIG(run()), SIGKILL);
	assert_int_equal(seen.cause, CAUSE_TIMEOUT);
	assert_int_equal(clears, 1);
	assert_int_equal(t.kills, 2);
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
	/* The opener may have slept for a while before the program was started. */
	assert_true(took_ms >= ms / 2);
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

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(output_and_code),
		TEST(nothing_is_lost_at_the_end),
		TEST(output_ends_first),
		TEST(what_is_left_goes_too),
		TEST(what_is_left_is_cleared),
		TEST(killed_before_it_is_cleared),
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
	};

	(void)signal(SIGPIPE, SIG_IGN);
	(void)alarm(120);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
