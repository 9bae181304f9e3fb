/* Compilers, input, and what is concluded. */
#include "watch_support.h"

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
	r = (struct result){.compile = {.begun = true, .ended = true, .wait_status = SIGKILL}};
	watch_conclude(&seen, &limits, SIGKILL, &r);
	assert_int_equal(r.status, STATUS_SIGNAL);
	assert_int_equal(r.signal, SIGKILL);
	assert_string_equal(r.message, "ended by signal 9 (Killed) while compiling");
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
	check_conclusion(none, SIGXCPU, STATUS_TIMEOUT, false, 0, 0,
			 "CPU time limit of 1 s reached");
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
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
