/*
 * The launcher as a process of its own: runs, live islands with many commands, what is
 * refused, and that nothing is left when its asker goes. Needs root.
 */
#include "service_client.h"

#include "base/attr.h"
#include "base/fd.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static int start(void **state)
{
	client_start(-1, NULL, state ? *state : NULL);
	return 0;
}

static int stop(void **state _unused_)
{
	client_stop();
	return 0;
}

static struct plan *plan_of(const char *line, uint64_t timeout_ms)
{
	return client_plan((struct spec){.limits.timeout_ms = timeout_ms}, line);
}

static void ask(struct service_request q, const struct plan *p, const int *fds)
{
	client_ask(q, p, p ? p->size : 0, fds, fds ? 3 : 0);
}

/* One program from its start to its report; out has what it printed. */
static struct service_report act(struct service_request q, const char *line, uint64_t timeout_ms,
				 char *out, size_t size)
{
	_cleanup_(pipes_done) struct pipes pipes = PIPES_NONE;
	struct plan *p = plan_of(line, timeout_ms);
	struct cay_error err;

	assert_int_equal(pipes_open(&pipes, 0, &err), 0);
	ask(q, p, pipes.theirs);
	pipes_close_theirs(&pipes);
	client_read(&pipes, out, size);
	free(p);
	return client_hear();
}

static struct service_report run(uint32_t island, const char *line, char *out, size_t size)
{
	return act((struct service_request){.kind = SERVICE_RUN, .island = island}, line, 0, out,
		   size);
}

static struct service_report command(uint32_t island, uint32_t number, const char *line, char *out,
				     size_t size)
{
	return act((struct service_request){.kind = SERVICE_COMMAND,
					    .island = island,
					    .command = number},
		   line, 0, out, size);
}

static void make(uint32_t island)
{
	struct plan *p = plan_of("true", 0);
	struct service_report r;

	ask((struct service_request){.kind = SERVICE_MAKE, .island = island}, p, NULL);
	r = client_hear();
	assert_int_equal(r.kind, REPORT_READY);
	assert_int_equal(r.island, island);
	assert_int_equal(r.isolation.user, HOLD_USERNS);
	assert_int_equal(r.isolation.seccomp, HOLD_ALLOWLIST);
	assert_int_equal(r.isolation.degraded, 0);
	free(p);
}

static void end(uint32_t island)
{
	struct service_report r;

	ask((struct service_request){.kind = SERVICE_KILL,
				     .island = island,
				     .cause = CAUSE_CANCELLED},
	    NULL, NULL);
	r = client_hear();
	assert_int_equal(r.kind, REPORT_GONE);
	assert_int_equal(r.island, island);
	assert_int_equal(r.cause, CAUSE_CANCELLED);
}

static void runs(void **state _unused_)
{
	struct service_report r;
	char out[64];

	for (uint32_t n = 1; n <= 20; n++) {
		r = run(n, "id -u; exit 3", out, sizeof(out));
		assert_int_equal(r.kind, REPORT_GONE);
		assert_int_equal(r.island, n);
		assert_int_equal(WEXITSTATUS(r.status), 3);
		assert_int_equal(r.cause, CAUSE_NONE);
		assert_string_equal(out, "1000\n");
		assert_true(r.usage.memory_peak_bytes > 0);
	}
}

static void runs_ahead(void **state _unused_)
{
	struct plan *p = plan_of("true", 0);
	struct service_report r;
	char out[64];

	ask((struct service_request){.kind = SERVICE_AHEAD, .command = 3}, p, NULL);
	for (uint32_t n = 1; n <= 20; n++) {
		r = run(n, "ls -A; touch mine; echo $$", out, sizeof(out));
		assert_int_equal(r.kind, REPORT_GONE);
		assert_string_equal(out, "2\n");
	}
	free(p);
}

static void ends_what_takes_too_much(void **state _unused_)
{
	struct service_report r;
	char out[64];

	r = act((struct service_request){.kind = SERVICE_RUN, .island = 1}, "echo a; sleep 60", 200,
		out, sizeof(out));
	assert_int_equal(r.cause, CAUSE_TIMEOUT);
	assert_string_equal(out, "a\n");
	r = run(2, "head -c 700m /dev/zero | tail -c 700m", out, sizeof(out));
	assert_int_equal(r.cause, CAUSE_MEMORY);
}

static void a_live_island_keeps_its_files(void **state _unused_)
{
	struct service_report r;
	char out[256];

	make(7);
	r = command(7, 1, "echo here >file; echo $HOME", out, sizeof(out));
	assert_int_equal(r.kind, REPORT_EXITED);
	assert_int_equal(r.command, 1);
	assert_int_equal(r.status, 0);
	assert_string_equal(out, "/workspace\n");
	r = command(7, 2, "cat file; id -u; grep -E 'Cap(Prm|Eff|Bnd)|Seccomp:' /proc/self/status",
		    out, sizeof(out));
	assert_int_equal(r.status, 0);
	assert_string_equal(out, "here\n1000\nCapPrm:\t0000000000000000\n"
				 "CapEff:\t0000000000000000\nCapBnd:\t0000000000000000\n"
				 "Seccomp:\t2\n");
	r = command(7, 3, "kill -9 $$", out, sizeof(out));
	assert_int_equal(WTERMSIG(r.status), SIGKILL);
	assert_int_equal(r.cause, CAUSE_NONE);
	end(7);
	r = command(7, 4, "true", out, sizeof(out));
	assert_int_equal(r.kind, REPORT_FAILED);
	assert_int_equal(r.error.code, CAY_E_NOT_FOUND);
}

/* What one command does to itself is not the others' concern, nor init's. */
static void commands_end_apart(void **state _unused_)
{
	struct service_report r;
	char out[256];

	make(1);
	r = command(
		1, 1,
		"(setsid sleep 1000 >/dev/null 2>&1 &) ; until pgrep -x sleep >/dev/null; do :; done; "
		"echo started",
		out, sizeof(out));
	assert_string_equal(out, "started\n");
	r = act((struct service_request){.kind = SERVICE_COMMAND, .island = 1, .command = 2},
		"(setsid sleep 2000 &) ; sleep 3000", 300, out, sizeof(out));
	assert_int_equal(r.cause, CAUSE_TIMEOUT);
	r = command(1, 3, "pgrep -a sleep | cut -d' ' -f2-", out, sizeof(out));
	assert_string_equal(out, "sleep 1000\n");
	r = command(1, 4, "kill -9 1; kill -9 -1; true", out, sizeof(out));
	r = command(1, 5, "head -c 700m /dev/zero | tail -c 700m", out, sizeof(out));
	assert_int_equal(r.kind, REPORT_EXITED);
	assert_int_equal(r.cause, CAUSE_MEMORY);
	r = command(1, 6, "echo alive", out, sizeof(out));
	assert_string_equal(out, "alive\n");
	end(1);
}

static void commands_run_side_by_side(void **state _unused_)
{
	struct pipes pipes[8];
	struct cay_error err;
	struct plan *p =
		plan_of("echo $$ >>pids; while [ $(wc -l <pids) -lt 8 ]; do sleep 0.02; done", 0);
	bool seen[9] = {false};

	make(1);
	for (uint32_t n = 0; n < 8; n++) {
		pipes[n] = PIPES_NONE;
		assert_int_equal(pipes_open(&pipes[n], 0, &err), 0);
		ask((struct service_request){.kind = SERVICE_COMMAND,
					     .island = 1,
					     .command = n + 1},
		    p, pipes[n].theirs);
	}
	for (int n = 0; n < 8; n++) {
		struct service_report r = client_hear();

		assert_int_equal(r.kind, REPORT_EXITED);
		assert_in_range(r.command, 1, 8);
		assert_false(seen[r.command]);
		seen[r.command] = true;
	}
	for (int n = 0; n < 8; n++)
		pipes_done(&pipes[n]);
	end(1);
	free(p);
}

/* Whether something was said within a time; all of it is read. */
static bool says_something(const struct pipes *pipes, int timeout_ms)
{
	struct pollfd wait = {.fd = pipes->ours[1], .events = POLLIN};
	char text[4096];

	if (poll(&wait, 1, timeout_ms) == 0)
		return false;
	assert_true(read(pipes->ours[1], text, sizeof(text)) > 0);
	return true;
}

static void pauses(void **state _unused_)
{
	_cleanup_(pipes_done) struct pipes pipes = PIPES_NONE;
	struct plan *p = plan_of("i=0; while :; do i=$((i+1)); echo $i; sleep 0.01; done", 0);
	struct cay_error err;
	struct service_report r;
	int n = 0;

	make(1);
	assert_int_equal(pipes_open(&pipes, 0, &err), 0);
	ask((struct service_request){.kind = SERVICE_COMMAND, .island = 1, .command = 1}, p,
	    pipes.theirs);
	assert_true(says_something(&pipes, PATIENCE_MS));
	ask((struct service_request){.kind = SERVICE_FREEZE, .island = 1}, NULL, NULL);
	r = client_hear();
	assert_int_equal(r.kind, REPORT_USAGE);
	assert_true(r.processes >= 1);
	/* It may have been about to say something. */
	while (says_something(&pipes, 200))
		assert_true(++n < 10);
	ask((struct service_request){.kind = SERVICE_THAW, .island = 1}, NULL, NULL);
	r = client_hear();
	assert_int_equal(r.kind, REPORT_USAGE);
	assert_true(says_something(&pipes, PATIENCE_MS));
	/* One that is paused takes no orders, so nobody waits for it; and it can be ended. */
	ask((struct service_request){.kind = SERVICE_FREEZE, .island = 1}, NULL, NULL);
	(void)client_hear();
	ask((struct service_request){.kind = SERVICE_COMMAND, .island = 1, .command = 2}, p,
	    (int[]){0, 0, 0});
	r = client_hear();
	assert_int_equal(r.kind, REPORT_FAILED);
	assert_int_equal(r.error.code, CAY_E_CONFLICT);
	end(1);
	free(p);
}

static void gives_a_terminal(void **state _unused_)
{
	struct plan *p =
		plan_of("test -t 0 && test -t 1 && tty && stty size && read x && echo got $x", 0);
	int pair[2], null = open("/dev/null", O_RDWR | O_CLOEXEC), master;
	int fds[3] = {0, null, null};
	struct winsize size = {.ws_row = 33, .ws_col = 99};
	struct service_report r;
	char text[256] = "";
	size_t n_fds, len = 0;
	ssize_t n;

	make(1);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	fds[0] = pair[1];
	assert_int_equal(msg_send(pair[0], &size, sizeof(size), NULL, 0), 0);
	ask((struct service_request){.kind = SERVICE_COMMAND,
				     .island = 1,
				     .command = 1,
				     .flags = ORDER_TERMINAL},
	    p, fds);
	(void)close(pair[1]);
	assert_int_equal(msg_recv(pair[0], text, sizeof(text), &master, 1, &n_fds), 1);
	assert_int_equal(n_fds, 1);
	assert_int_equal(write(master, "word\n", 5), 5);
	while (len < sizeof(text) - 1 && (n = read(master, text + len, sizeof(text) - 1 - len)) > 0)
		len += (size_t)n;
	text[len] = '\0';
	r = client_hear();
	assert_int_equal(r.kind, REPORT_EXITED);
	assert_int_equal(r.status, 0);
	assert_non_null(strstr(text, "/dev/pts/0"));
	assert_non_null(strstr(text, "33 99"));
	assert_non_null(strstr(text, "got word"));
	end(1);
	(void)close(master);
	(void)close(pair[0]);
	(void)close(null);
	free(p);
}

static void refuses_what_is_no_request(void **state _unused_)
{
	static const int leads_out[] = {O_RDONLY | O_DIRECTORY, O_PATH};
	static const uint32_t ours[] = {ORDER_LAST, ORDER_SCRATCH, ORDER_CHECK, ORDER_CGROUP,
					ORDER_OWN,  FLAG_OWN,      FLAG_MORE,   1u << 31};
	/* Agents and terminals have more time, and no CPU time is counted of an agent. */
	static const uint32_t commands[] = {ORDER_COMPILE, ORDER_TERMINAL, ORDER_AGENT};
	struct service_request q = {.kind = 77};
	struct plan *p = plan_of("true", 0);
	char out[64];

	assert_int_equal(msg_send(client_sock, "x", 1, NULL, 0), 0);
	assert_int_equal(client_hear().kind, REPORT_FAILED);
	ask(q, NULL, NULL);
	assert_int_equal(client_hear().kind, REPORT_FAILED);
	q.kind = SERVICE_RUN; /* without fds */
	q.island = 3;
	ask(q, p, NULL);
	assert_int_equal(client_hear().kind, REPORT_FAILED);
	/* Streams that would lead out of the island. */
	for (size_t n = 0; n < ARRAY_LEN(leads_out); n++) {
		int fd = open("/usr", leads_out[n] | O_CLOEXEC);

		ask(q, p, (int[]){fd, fd, fd});
		assert_int_equal(client_hear().kind, REPORT_FAILED);
		(void)close(fd);
	}
	p->limits.memory_bytes = 0;
	ask((struct service_request){.kind = SERVICE_MAKE, .island = 4}, p, NULL);
	assert_int_equal(client_hear().kind, REPORT_FAILED);
	free(p);
	/* A command with other limits than its island's, or for what is the launcher's to say. */
	make(5);
	p = plan_of("true", 0);
	p->limits.pids++;
	ask((struct service_request){.kind = SERVICE_COMMAND, .island = 5, .command = 1}, p,
	    (int[]){0, 0, 0});
	assert_int_equal(client_hear().kind, REPORT_FAILED);
	free(p);
	for (size_t n = 0; n < ARRAY_LEN(ours); n++)
		assert_int_equal(act((struct service_request){.kind = SERVICE_COMMAND,
							      .island = 5,
							      .command = 2,
							      .flags = ours[n]},
				     "true", 0, out, sizeof(out))
					 .kind,
				 REPORT_FAILED);
	for (size_t n = 0; n < ARRAY_LEN(ours) + ARRAY_LEN(commands); n++) {
		q.flags = n < ARRAY_LEN(ours) ? ours[n] : commands[n - ARRAY_LEN(ours)];
		assert_int_equal(act(q, "true", 0, out, sizeof(out)).kind, REPORT_FAILED);
	}
	assert_int_equal(command(5, 3, "echo well", out, sizeof(out)).kind, REPORT_EXITED);
	assert_string_equal(out, "well\n");
	end(5);
}

static struct limits maximum = {
	.memory_bytes = LIMIT_DEFAULT_MEMORY, .timeout_ms = 5000, .cpu_time_ms = 1000};

/* A plan that an api in other hands could send: none of it was asked of policy. */
static struct service_report try_plan(enum service_request_kind kind, uint32_t island,
				      const struct plan *p)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	int fds[3] = {null, null, null};

	ask((struct service_request){.kind = kind, .island = island}, p,
	    kind == SERVICE_RUN ? fds : NULL);
	(void)close(null);
	return client_hear();
}

static void refuse_above(const struct plan *good, size_t offset, uint64_t value)
{
	static const enum service_request_kind kinds[] = {SERVICE_RUN, SERVICE_MAKE, SERVICE_AHEAD};
	struct plan *p = malloc(good->size);

	assert_non_null(p);
	memcpy(p, good, good->size);
	memcpy((char *)&p->limits + offset, &value, sizeof(value));
	for (size_t n = 0; n < ARRAY_LEN(kinds); n++) {
		struct service_report r = try_plan(kinds[n], 90, p);

		assert_int_equal(r.kind, REPORT_FAILED);
		assert_int_equal(r.error.code, CAY_E_POLICY);
	}
	free(p);
}

static void keeps_the_operators_maxima(void **state _unused_)
{
	struct plan *p = plan_of("true", 4000);

	p->limits.cpu_time_ms = 1000;
	refuse_above(p, offsetof(struct limits, memory_bytes), LIMIT_DEFAULT_MEMORY + 1);
	refuse_above(p, offsetof(struct limits, timeout_ms), 5001);
	refuse_above(p, offsetof(struct limits, cpu_time_ms), 1001);
	refuse_above(p, offsetof(struct limits, cpu_time_ms), 0); /* unlimited */
	p->allow_degraded = 1; /* which the client's launcher forbids */
	refuse_above(p, offsetof(struct limits, timeout_ms), 4000);
	p->allow_degraded = 0;
	assert_int_equal(try_plan(SERVICE_RUN, 1, p).kind, REPORT_GONE);
	free(p);
}

/* What a request says of time is what is left of the plan's, but for agents and terminals. */
static void times_are_only_shortened(void **state _unused_)
{
	struct service_request q = {.kind = SERVICE_RUN, .island = 1, .timeout_ms = 4001};
	struct plan *p = plan_of("true", 4000);
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	int fds[3] = {null, null, null};

	p->limits.cpu_time_ms = 1000;
	ask(q, p, fds);
	assert_int_equal(client_hear().kind, REPORT_FAILED);
	q.timeout_ms = 4000;
	q.cpu_time_ms = 1001;
	ask(q, p, fds);
	assert_int_equal(client_hear().kind, REPORT_FAILED);
	q.cpu_time_ms = 1000;
	ask(q, p, fds);
	assert_int_equal(client_hear().kind, REPORT_GONE);

	ask((struct service_request){.kind = SERVICE_MAKE, .island = 2}, p, NULL);
	assert_int_equal(client_hear().kind, REPORT_READY);
	q = (struct service_request){.kind = SERVICE_COMMAND,
				     .island = 2,
				     .command = 1,
				     .flags = ORDER_AGENT,
				     .timeout_ms = LIMIT_MAX_TIME_MS + 1};
	ask(q, p, fds);
	assert_int_equal(client_hear().kind, REPORT_FAILED);
	q.timeout_ms = LIMIT_MAX_TIME_MS;
	ask(q, p, fds);
	assert_int_equal(client_hear().kind, REPORT_EXITED);
	end(2);
	(void)close(null);
	free(p);
}

static void says_what_can_t_be_executed(void **state _unused_)
{
	_cleanup_(pipes_done) struct pipes pipes = PIPES_NONE;
	struct spec spec = {.kind = SPEC_ARGV};
	struct settings settings;
	struct cay_error err;
	struct plan *p = NULL;
	struct service_report r;
	char out[64];

	settings_init(&settings);
	assert_int_equal(strv_add(&spec.args, "no-such-program"), 0);
	assert_int_equal(plan_make(&spec, &settings, NULL, NULL, NULL, &p, &err), 0);
	make(1);
	assert_int_equal(pipes_open(&pipes, 0, &err), 0);
	ask((struct service_request){.kind = SERVICE_COMMAND, .island = 1, .command = 1}, p,
	    pipes.theirs);
	r = client_hear();
	assert_int_equal(r.kind, REPORT_FAILED);
	assert_int_equal(r.error.exit_code, 127);
	assert_int_equal(command(1, 2, "echo on", out, sizeof(out)).kind, REPORT_EXITED);
	ask((struct service_request){.kind = SERVICE_RUN, .island = 2}, p, pipes.theirs);
	r = client_hear();
	assert_int_equal(r.kind, REPORT_FAILED);
	assert_int_equal(r.error.exit_code, 127);
	end(1);
	spec_done(&spec);
	settings_done(&settings);
	free(p);
}

/* The launcher is killed: no island outlives it. */
static void nothing_outlives_the_launcher(void **state _unused_)
{
	_cleanup_(pipes_done) struct pipes pipes = PIPES_NONE;
	struct plan *p = plan_of("echo up; setsid sleep 60", 0);
	struct pollfd wait;
	struct cay_error err;
	char text[8];

	(void)start(NULL);
	make(1);
	assert_int_equal(pipes_open(&pipes, 0, &err), 0);
	ask((struct service_request){.kind = SERVICE_COMMAND, .island = 1, .command = 1}, p,
	    pipes.theirs);
	pipes_close_theirs(&pipes);
	wait = (struct pollfd){.fd = pipes.ours[1], .events = POLLIN};
	assert_int_equal(poll(&wait, 1, 20000), 1);
	assert_int_equal(read(pipes.ours[1], text, sizeof(text)), 3);
	assert_int_equal(kill(client_launcher, SIGKILL), 0);
	assert_int_equal(poll(&wait, 1, 5000), 1);
	assert_int_equal(read(pipes.ours[1], text, sizeof(text)), 0);
	assert_int_equal(waitpid(client_launcher, NULL, 0), client_launcher);
	(void)close(client_sock);
	free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(runs, start, stop),
		cmocka_unit_test_setup_teardown(runs_ahead, start, stop),
		cmocka_unit_test_setup_teardown(ends_what_takes_too_much, start, stop),
		cmocka_unit_test_setup_teardown(a_live_island_keeps_its_files, start, stop),
		cmocka_unit_test_setup_teardown(commands_end_apart, start, stop),
		cmocka_unit_test_setup_teardown(commands_run_side_by_side, start, stop),
		cmocka_unit_test_setup_teardown(pauses, start, stop),
		cmocka_unit_test_setup_teardown(gives_a_terminal, start, stop),
		cmocka_unit_test_setup_teardown(refuses_what_is_no_request, start, stop),
		cmocka_unit_test_setup_teardown(says_what_can_t_be_executed, start, stop),
		cmocka_unit_test_prestate_setup_teardown(keeps_the_operators_maxima, start, stop,
							 &maximum),
		cmocka_unit_test_prestate_setup_teardown(times_are_only_shortened, start, stop,
							 &maximum),
		cmocka_unit_test(nothing_outlives_the_launcher),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
