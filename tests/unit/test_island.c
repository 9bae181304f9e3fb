/*
 * Every control is required: with any one set-up step left out, the island
 * refuses itself and nothing starts. Needs root.
 */
#include "island_run.h"

#include "base/attr.h"
#include "base/fd.h"
#include "engine/native/confine.h"
#include "engine/native/island.h"
#include "engine/native/launcher.h"
#include "engine/pipes.h"
#include "engine/sys.h"
#include "policy/plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static struct mount_rules no_rules;

static struct plan *make_plan(const char *const *argv)
{
	struct spec spec = {.kind = SPEC_ARGV};
	struct settings settings;
	struct cay_error err;
	struct plan *plan = NULL;

	settings_init(&settings);
	for (; *argv; argv++)
		assert_int_equal(strv_add(&spec.args, *argv), 0);
	assert_int_equal(plan_make(&spec, &settings, NULL, NULL, NULL, &plan, &err), 0);
	spec_done(&spec);
	settings_done(&settings);
	return plan;
}

static void runs_and_reads_back(void **state _unused_)
{
	struct plan *plan =
		make_plan((const char *const[]){"/bin/sh", "-c", "id -u; exit 7", NULL});
	struct isolation iso = {0};
	struct launcher l;
	struct cay_error err;
	char out[64];

	launcher_init(&l, &no_rules);
	assert_int_equal(run(&l, plan, &iso, out, sizeof(out), &err), 7);
	assert_string_equal(out, "1000\n");
	assert_int_equal(iso.user, HOLD_USERNS);
	assert_int_equal(iso.seccomp, HOLD_ALLOWLIST);
	assert_int_equal(iso.namespaces, (1u << NAMESPACES) - 1);
	assert_true(iso.read_only_root && iso.no_new_privs);
	assert_int_not_equal(iso.memory, HOLD_NONE);
	assert_int_not_equal(iso.pids, HOLD_NONE);
	assert_int_not_equal(iso.cpu, HOLD_NONE);
	assert_int_equal(iso.degraded, 0);
	launcher_done(&l);
	free(plan);
}

/* A template and pooled networks give the same island. */
static void template_gives_the_same(void **state _unused_)
{
	struct plan *plan = make_plan((const char *const[]){
		"/bin/sh", "-c",
		"id -u; ls /; ls /etc; cut -d' ' -f5,6 /proc/self/mountinfo | sort; "
		"cat /sys/class/net/*/operstate /proc/net/dev | wc -l; ls /proc/1/fd",
		NULL});
	struct isolation iso = {0};
	struct launcher fresh, resident;
	struct cay_error err;
	static char a[8192], b[8192];

	launcher_init(&fresh, &no_rules);
	launcher_init(&resident, &no_rules);
	assert_int_equal(launcher_make_template(&resident, &err), 0);
	assert_int_equal(launcher_keep_cgroups(&resident, 4, &err), 0);
	for (int round = 0; round < 3; round++) {
		int code = run(&fresh, plan, &iso, a, sizeof(a), &err);

		assert_int_equal(launcher_fill_networks(&resident, 2, &err), 0);
		assert_int_equal(run(&resident, plan, &iso, b, sizeof(b), &err), code);
		/* The template keeps the host's /proc below the island's own: one line more. */
		assert_non_null(strstr(a, "/proc"));
		assert_int_equal(strncmp(a, b, strcspn(a, "/")), 0);
	}
	launcher_done(&fresh);
	launcher_done(&resident);
	free(plan);
}

/* Loopback is up and alone, whoever made it. */
static void a_network_by_each_way(void **state _unused_)
{
	struct plan *plan = make_plan((const char *const[]){
		"/bin/sh", "-c",
		"grep -q 127.0.0.1 /proc/net/fib_trie && tail -n +3 /proc/net/dev | cut -d: -f1",
		NULL});
	struct isolation iso = {0};
	struct cay_error err;
	char out[64];

	for (size_t ahead = 0; ahead < 2; ahead++) {
		struct launcher l;

		launcher_init(&l, &no_rules);
		assert_int_equal(launcher_make_ahead(&l, plan, ahead, &err), 0);
		assert_int_equal(run(&l, plan, &iso, out, sizeof(out), &err), 0);
		assert_string_equal(out + strspn(out, " "), "lo\n");
		launcher_done(&l);
	}
	free(plan);
}

/* A pooled cgroup has the new limits, and nothing of the last island's ends. */
static void a_pool_forgets(void **state _unused_)
{
	const char *const greedy[] = {"/bin/sh", "-c",
				      "head -c 200m /dev/zero | tail -c 200m | wc -c", NULL};
	const char *const modest[] = {"/bin/true", NULL};
	struct plan *big = make_plan(greedy), *small = make_plan(modest);
	struct isolation iso = {0};
	struct launcher l;
	struct cay_error err;
	char out[64];

	launcher_init(&l, &no_rules);
	assert_int_equal(launcher_keep_cgroups(&l, 1, &err), 0);
	big->limits.memory_bytes = 32 << 20;
	(void)run(&l, big, &iso, out, sizeof(out), &err);
	assert_string_not_equal(out, "209715200\n"); /* it met the limit */
	assert_int_equal(l.n_spare, 1);
	for (int round = 0; round < 3; round++) {
		_cleanup_(pipes_done) struct pipes pipes = PIPES_NONE;
		struct launched island;
		struct usage usage;
		struct pollfd end;

		small->limits.memory_bytes = (64ull + (unsigned)round) << 20;
		assert_int_equal(pipes_open(&pipes, 0, &err), 0);
		assert_int_equal(launcher_start(&l, small, pipes.theirs, false, &island, &err), 0);
		assert_true(island.cgroup.reused);
		end = (struct pollfd){.fd = island.pidfd, .events = POLLIN};
		assert_int_equal(poll(&end, 1, 20000), 1);
		assert_int_equal(cgroup_oom_kills(&island.cgroup), 0);
		assert_int_not_equal(island.isolation.memory,
				     HOLD_NONE); /* read back: the new value */
		launched_reap(&island, &usage);
		assert_true(usage.memory_peak_bytes < 30 << 20);
		assert_true(usage.cpu_ms < 1000);
		assert_int_equal(l.n_spare, 1);
	}
	launcher_done(&l);
	free(big);
	free(small);
}

/* Also one whose island was killed: the next one lives. */
static void a_pool_forgets_a_kill(void **state _unused_)
{
	struct plan *plan = make_plan((const char *const[]){"/bin/true", NULL});
	struct isolation iso = {0};
	struct launcher l;
	struct cay_error err;

	launcher_init(&l, &no_rules);
	assert_int_equal(launcher_keep_cgroups(&l, 1, &err), 0);
	for (int round = 0; round < 3; round++) {
		_cleanup_(pipes_done) struct pipes pipes = PIPES_NONE;
		struct launched island;
		struct usage usage;

		assert_int_equal(pipes_open(&pipes, 0, &err), 0);
		assert_int_equal(launcher_start(&l, plan, pipes.theirs, false, &island, &err), 0);
		launched_kill(&island);
		launched_reap(&island, &usage);
		assert_int_equal(run(&l, plan, &iso, NULL, 0, &err), 0);
	}
	launcher_done(&l);
	free(plan);
}

/* An island made ahead is like any other; each is used once, and only for what it fits. */
static void ahead_gives_the_same(void **state _unused_)
{
	struct plan *plan = make_plan((const char *const[]){
		"/bin/sh", "-c",
		"id; stat -c '%n %F %u %g %a' /* /etc/* /dev/*; ls /proc/1/fd 2>&1; cut -d' ' -f5,6 /proc/self/mountinfo | sort; nproc; "
		"ls -l /proc/self/fd | wc -l; ulimit -a; pwd; cat /proc/self/cgroup; exit 3",
		NULL});
	struct plan *other = make_plan((const char *const[]){"/bin/sh", "-c", "ulimit -n", NULL});
	struct launcher fresh, resident;
	struct isolation iso = {0};
	struct cay_error err;
	static char a[16384], b[16384];

	launcher_init(&fresh, &no_rules);
	launcher_init(&resident, &no_rules);
	launcher_tidy_later(&resident);
	assert_int_equal(launcher_make_ahead(&resident, other, 2, &err), 0);
	assert_int_equal(resident.shelves.n_islands, 2);
	for (size_t left = 2; left-- > 0;) {
		assert_int_equal(run(&fresh, plan, &iso, a, sizeof(a), &err), 3);
		assert_int_equal(run(&resident, plan, &iso, b, sizeof(b), &err), 3);
		assert_string_equal(a, b);
		assert_int_equal(iso.namespaces, (1u << NAMESPACES) - 1);
		assert_int_equal(resident.shelves.n_islands, left);
	}
	assert_int_equal(run(&resident, plan, &iso, b, sizeof(b), &err), 3); /* none is left */
	assert_string_equal(a, b);

	assert_int_equal(launcher_make_ahead(&resident, plan, 2, &err), 0);
	other->limits.open_files = 77;
	assert_int_equal(run(&resident, other, &iso, b, sizeof(b), &err), 0);
	assert_string_equal(b, "77\n");
	assert_int_equal(resident.shelves.n_islands, 2);
	assert_int_equal(launcher_make_ahead(&resident, other, 1, &err), 0);
	assert_int_equal(resident.shelves.n_islands, 3);
	assert_int_equal(run(&resident, other, &iso, b, sizeof(b), &err), 0);
	assert_string_equal(b, "77\n");
	assert_int_equal(resident.shelves.n_islands, 2);
	launcher_done(&fresh);
	launcher_done(&resident);
	free(plan);
	free(other);
}

/* One that died while it waited is passed over; one that waits holds nothing of the launcher's. */
static void ahead_can_die(void **state _unused_)
{
	struct plan *plan = make_plan((const char *const[]){"/bin/sh", "-c", "echo well", NULL});
	struct isolation iso = {0};
	struct launcher l;
	struct cay_error err;
	struct pollfd end = {.events = POLLIN};
	char out[64];
	int other[2];

	assert_int_equal(pipe(other), 0);
	launcher_init(&l, &no_rules);
	assert_int_equal(launcher_make_ahead(&l, plan, 2, &err), 0);
	(void)close(other[1]);
	end.fd = other[0];
	assert_int_equal(poll(&end, 1, 20000), 1);
	assert_int_equal(read(other[0], out, 1), 0);
	(void)close(other[0]);

	launched_kill(l.shelves.items[0]->islands[0]);
	end.fd = l.shelves.items[0]->islands[0]->pidfd;
	assert_int_equal(poll(&end, 1, 20000), 1);
	assert_int_equal(run(&l, plan, &iso, out, sizeof(out), &err), 0);
	assert_string_equal(out, "well\n");
	assert_int_equal(l.shelves.n_islands, 0);
	launcher_done(&l);
	free(plan);
}

/* A launcher of many islands has more open than an island's limit; none of it is the island's. */
static void launcher_with_many_fds(void **state _unused_)
{
	enum { MANY = 1500 };
	struct plan *plan = make_plan((const char *const[]){"/bin/sh", "-c", "ulimit -n", NULL});
	struct isolation iso = {0};
	struct rlimit old, more;
	struct launcher l;
	struct cay_error err;
	char out[64];
	int fds[MANY];

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	more = old;
	more.rlim_cur = more.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &more), 0);
	for (int n = 0; n < MANY; n++)
		assert_true((fds[n] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0);
	launcher_init(&l, &no_rules);
	assert_int_equal(run(&l, plan, &iso, out, sizeof(out), &err), 0);
	assert_string_equal(out, "1024\n");
	launcher_done(&l);
	for (int n = 0; n < MANY; n++)
		(void)close(fds[n]);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	free(plan);
}

struct expectation {
	const char *step;
	const char *says; /* part of the refusal; NULL: the island starts, weaker in what the facts
			     can't show */
};

/*
 * Rows whose loss facts can't show are listed as such, so that a new step must
 * be put here by somebody who thought about it.
 */
static const struct expectation expectations[] = {
	{"launcher", NULL}, /* as root, "ids" does it again */
	{"network", "net namespace"},
	{"hostname", NULL},
	{"cgroup", "the cgroups"},
	{"cgroup namespace", ""},
	{"ids", ""},
	{"root", ""},
	{"mount points", NULL},
	{"read-only root", "read-only root"},
	{"devices", NULL},
	{"proc", ""},
	{"proc masks", NULL},
	{"scratch", ""},
	{"machine", NULL}, /* no control: programs would take the host's size for theirs */
	{"terminals", NULL},
	{"mounts", NULL},
	{"pivot", ""},
	{"keyring", NULL},
	{"rlimits", "resource limits"},
	{"cpus", NULL},
	{"bounding set", "capability sets"},
	{"securebits", NULL},
	{"no new privileges", ""},
	{"shut init", NULL}, /* as root the change of ids does it too */
	{"seccomp", "system call filter"},
	{"command cgroup", NULL}, /* live islands alone have such */
	{"terminal", NULL},
	{"session", NULL},
	{"user", "user"},
	{"capabilities", NULL},
	{"stdio", NULL},
	{"workdir", NULL},
	{"landlock", NULL},
	{"fds", NULL},
	{"host directories", NULL},
};

static void require_each_step(size_t ahead)
{
	struct plan *plan = make_plan((const char *const[]){"/bin/true", NULL});

	for (unsigned n = 0; n < n_island_steps; n++) {
		const struct expectation *e = NULL;
		struct isolation iso = {0};
		struct launcher l;
		struct cay_error err = {0};
		int code;

		for (size_t k = 0; k < ARRAY_LEN(expectations); k++)
			if (strcmp(expectations[k].step, island_steps[n].name) == 0)
				e = &expectations[k];
		if (!e)
			fail_msg("the step '%s' has no expectation", island_steps[n].name);
		launcher_init(&l, &no_rules);
		l.skip_steps = 1ull << n;
		/* One that gives up at once may be noticed while it is made. */
		code = launcher_make_ahead(&l, plan, ahead, &err);
		if (code == 0)
			code = run(&l, plan, &iso, NULL, 0, &err);
		if (e && e->says && code != -1)
			fail_msg("without '%s' the program ran", island_steps[n].name);
		if (e && e->says && !strstr(err.text, e->says))
			fail_msg("without '%s': %s", island_steps[n].name, err.text);
		if (e && !e->says && code == -1 && err.text[0] == '\0')
			fail_msg("without '%s': no reason given", island_steps[n].name);
		launcher_done(&l);
	}
	free(plan);
}

static void each_step_is_required(void **state _unused_)
{
	require_each_step(0);
}

static void each_step_is_required_ahead(void **state _unused_)
{
	require_each_step(1);
}

/* Its end of the socket may be open in an island that was cloned later. */
static void a_launcher_that_died_is_noticed(void **state _unused_)
{
	int pair[2], status;
	pid_t launcher;

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	for (int dead = 0; dead < 2; dead++) {
		struct island i = {.control = pair[0]};
		struct cay_error err;
		pid_t pid;

		launcher = fork();
		if (launcher == 0) {
			(void)pause();
			_exit(0);
		}
		i.launcher = sys_pidfd_open(launcher);
		assert_true(launcher > 0 && i.launcher >= 0);
		if (dead) {
			struct pollfd end = {.fd = i.launcher, .events = POLLIN};

			assert_int_equal(kill(launcher, SIGKILL), 0);
			assert_int_equal(poll(&end, 1, 10000), 1);
		}
		pid = fork();
		if (pid == 0)
			_exit(confine_to_launcher(&i, &err) < 0);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFEXITED(status));
		assert_int_equal(WEXITSTATUS(status), dead);
		assert_int_equal(kill(launcher, SIGKILL), 0);
		assert_int_equal(waitpid(launcher, NULL, 0), launcher);
		fd_closep(&i.launcher);
	}
	fd_closep(&pair[0]);
	fd_closep(&pair[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(runs_and_reads_back),
		cmocka_unit_test(template_gives_the_same),
		cmocka_unit_test(a_network_by_each_way),
		cmocka_unit_test(a_pool_forgets),
		cmocka_unit_test(a_pool_forgets_a_kill),
		cmocka_unit_test(ahead_gives_the_same),
		cmocka_unit_test(ahead_can_die),
		cmocka_unit_test(launcher_with_many_fds),
		cmocka_unit_test(a_launcher_that_died_is_noticed),
		cmocka_unit_test(each_step_is_required),
		cmocka_unit_test(each_step_is_required_ahead),
	};

	if (geteuid() != 0) {
		(void)fprintf(stderr, "test_island needs root: islands with a range of ids\n");
		return getenv("CAY_MUST_WORK") ? 1 : 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
