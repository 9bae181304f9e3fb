#include "engine/native/island.h"

#include "base/attr.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/title.h"
#include "engine/agent.h"
#include "engine/native/confine.h"
#include "engine/native/layout.h"
#include "engine/native/network.h"
#include "engine/native/orders.h"
#include "engine/overlay.h"
#include "engine/native/waiter.h"
#include "engine/sys.h"
#include "policy/command.h"
#include "warm/interpreter.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

/*
 * The set-up of an island, in order. The order matters where a comment says so;
 * what each step must have achieved is checked by the launcher from the facts
 * that the last process reads back, so a step that did nothing is noticed.
 */
const struct step island_steps[] = {
	{"launcher", STEP_EARLY, confine_to_launcher, EVERYONE},
	{"hostname", STEP_EARLY, confine_hostname, EVERYONE},

	{"ids", STEP_MAPPED, confine_ids, EVERYONE},

	/* While the host's paths are as they were: the new root covers one of its directories. */
	{"host directories", STEP_MAPPED, layout_trees, EVERYONE},
	{"root", STEP_ROOT, layout_root, EVERYONE},
	{"mount points", STEP_ROOT, layout_mount_points, EVERYONE},
	/* Before anything that stays writable is placed, after all that needs a place. */
	{"read-only root", STEP_ROOT, layout_seal, EVERYONE},
	{"devices", STEP_ROOT, layout_devices, EVERYONE},
	/* /proc while the host's is still in sight: the kernel grants no more than was visible. */
	{"proc", STEP_MAPPED, layout_proc, EVERYONE},
	{"proc masks", STEP_MAPPED, layout_proc_masks, NOT_ZYGOTE},

	/* Limits before anything that can grow; while the host's /proc tells where we are. */
	{"cgroup", STEP_INIT, confine_cgroup, EVERYONE},
	{"cgroup namespace", STEP_INIT, confine_cgroup_namespace, NOT_ZYGOTE},
	{"scratch", STEP_INIT, layout_scratch, EVERYONE},
	{"machine", STEP_INIT, layout_sys, NOT_ZYGOTE},
	{"terminals", STEP_INIT, layout_devpts, NOT_ZYGOTE},
	{"mounts", STEP_INIT, layout_mounts, EVERYONE},
	{"pivot", STEP_INIT, layout_enter, EVERYONE},

	{"keyring", STEP_INIT, confine_keyring, EVERYONE},
	{"rlimits", STEP_INIT, confine_rlimits, NOT_ZYGOTE},
	{"cpus", STEP_INIT, confine_cpus, NOT_ZYGOTE},
	/* While we still have CAP_SETPCAP: after the uid changes it would fail quietly. */
	{"bounding set", STEP_INIT, confine_bounding, NOT_ZYGOTE},
	{"securebits", STEP_INIT, confine_securebits, NOT_ZYGOTE},
	{"no new privileges", STEP_INIT, confine_no_new_privs, EVERYONE},
	/* As late as can be: the launcher's side makes it meanwhile. */
	{"network", STEP_INIT, network_enter, EVERYONE},
	{"shut init", STEP_INIT, confine_shut_init, EVERYONE},
	/* Last of init's: it denies what the steps above need. The program's process inherits it.
	 */
	{"seccomp", STEP_INIT, confine_seccomp, NOT_ZYGOTE},

	/* Before there is anything of the program's that could be outside of it. */
	{"command cgroup", STEP_PROGRAM, confine_command, EVERYONE},
	{"session", STEP_PROGRAM, confine_session, EVERYONE},
	{"user", STEP_PROGRAM, confine_user, NOT_ZYGOTE},
	{"capabilities", STEP_PROGRAM, confine_capabilities, NOT_ZYGOTE},
	{"landlock", STEP_PROGRAM, confine_landlock, NOT_ZYGOTE},
	{"terminal", STEP_ORDERED, confine_terminal, EVERYONE},
	{"stdio", STEP_ORDERED, confine_stdio, EVERYONE},
	{"fds", STEP_LAST, confine_fds, EVERYONE},
	{"workdir", STEP_LAST, confine_workdir, EVERYONE},
};
const unsigned n_island_steps = ARRAY_LEN(island_steps);

_Static_assert(ARRAY_LEN(island_steps) <= 64, "struct island's skip has 64 bits");

static int run_steps(struct island *i, enum step_where where, struct cay_error *err)
{
	for (unsigned n = 0; n < n_island_steps; n++) {
		const struct step *s = &island_steps[n];
		bool here = s->where == where || (where == STEP_MAPPED && s->where == STEP_ROOT &&
						  (!i->in_template || plan_image(i->plan)));

		if (!here || (s->whose == NOT_ZYGOTE && i->zygote) || i->skip & 1ull << n)
			continue;
		if (s->run(i, err) < 0)
			return cay_wrap(err, "set up the island (%s)", s->name);
	}
	return 0;
}

static void report_failure(const struct island *i, const struct cay_error *err)
{
	struct message m = {.kind = MESSAGE_FAILED, .command = i->command, .error = *err};

	(void)msg_send(i->control, &m, sizeof(m), NULL, 0);
}

/* Not _noreturn_, as island_exec(): it is called on the borrowed stack, too. */
static void give_up(const struct island *i, const struct cay_error *err)
{
	report_failure(i, err);
	_exit(125);
}

/* Waits for the launcher's word; anything else, also its death, ends the island. */
static void await(struct island *i, enum message_kind kind)
{
	struct message m;
	size_t n_fds;
	ssize_t n = msg_recv(i->control, &m, sizeof(m), i->tasks, CONTROLLERS, &n_fds);

	if (n != (ssize_t)sizeof(m) || m.kind != (uint32_t)kind)
		_exit(125);
	if (kind == MESSAGE_LIMITED)
		i->provision = m.provision;
}

#define PROGRAM_STACK (64 * 1024)

struct program {
	struct island *island;
	char **argv, **env;
};

int island_exec(const struct island *i, char *const *argv, char *const *env)
{
	struct cay_error err;
	int saved;

	if (!argv[0])
		return 127; /* no plan is so */
	(void)execute_search(argv, env);
	saved = errno;
	if (saved == ENOENT || saved == ENOTDIR)
		(void)cay_fail(&err, CAY_E_NOT_FOUND, 0, "%s: command not found%s", argv[0],
			       i->bare ? "" : " on the island");
	else
		(void)cay_fail(&err, CAY_E_INVALID, saved, "%s can't be executed", argv[0]);
	if (strncmp(argv[0], ISLAND_BUILD "/", strlen(ISLAND_BUILD "/")) == 0)
		(void)cay_hint(&err, "the compiler made no program: has the source a main?");
	err.exit_code = err.code == CAY_E_NOT_FOUND ? 127 : 126;
	report_failure(i, &err);
	return err.exit_code;
}

static void make_build_dir(void)
{
	if (mkdir(ISLAND_BUILD, 0700) < 0 && errno != EEXIST)
		_exit(125);
}

/* The layers take the place of standard error, which an agent has no use for. */
static int keep_layers(const struct island *i)
{
	_cleanup_(fd_closep) int layers =
		openat(i->scratch_fd, SCRATCH_OVERLAY, O_PATH | O_DIRECTORY | O_CLOEXEC);

	return layers < 0 ? -1 : dup2(layers, STDERR_FILENO);
}

/* It is done with us, and keeps no way to talk to the launcher. */
static int be_agent(struct island *i)
{
	bool overlay = plan_overlay(i->plan);
	struct cay_error err;

	if (overlay && keep_layers(i) < 0) {
		(void)cay_fail(&err, CAY_E_ENGINE, errno, "open the workspace's layer");
		give_up(i, &err);
	}
	if (confine_fds(i, &err) < 0)
		give_up(i, &err);
	(void)close(i->control);
	return agent_serve(ISLAND_WORKSPACE, STDIN_FILENO, STDOUT_FILENO,
			   overlay ? STDERR_FILENO : -1) < 0;
}

bool island_starts_warm(const struct island *i)
{
	return i->interpreter && plan_warm(i->plan);
}

/* What an exec would have done: nothing of ours is left open, and the memory is the program's. */
static int become(const struct island *i, char **argv, char **env)
{
	if (sys_close_range(CONTROL_FD, ~0u, 0) < 0 || prctl(PR_SET_DUMPABLE, 1) < 0)
		return 125;
	i->interpreter->run(argv, env);
	return 125;
}

int island_program(struct island *i, char **argv, char **env)
{
	struct message m = {.kind = MESSAGE_READY, .command = i->command};
	struct cay_error err;

	if (run_steps(i, STEP_PROGRAM, &err) < 0)
		give_up(i, &err);
	if (i->single) {
		i->interpreter->ready();
		orders_take_last(i);
		argv = island_list(i->plan, i->plan->argv);
		env = island_list(i->plan, i->plan->env);
		m.command = i->command;
	}
	if (((i->single || i->keep_facts) && confine_cpus(i, &err) < 0) ||
	    run_steps(i, STEP_ORDERED, &err) < 0 || confine_read_facts(i, &m.facts, &err) < 0 ||
	    (i->zygote ? facts_check_zygote(&m.facts, i->provision.namespaces, &err)
		       : facts_check(&m.facts, i->plan, i->provision.namespaces, &err)) < 0)
		give_up(i, &err);
	if (i->keep_facts)
		*i->keep_facts = m.facts;
	else if (msg_send(i->control, &m, sizeof(m), &i->scratch_fd,
			  i->held || i->order.flags & ORDER_SCRATCH) < 0)
		_exit(125);
	if (i->order.flags & ORDER_CHECK)
		return 0;
	if (i->order.flags & ORDER_AGENT)
		return be_agent(i);
	if (i->held)
		await(i, MESSAGE_GO);
	if (run_steps(i, STEP_LAST, &err) < 0)
		give_up(i, &err);
	/* Nobody shall have looked at what files a program has before they are there. */
	if (i->keep_facts && chdir("/") < 0)
		return 125;
	if (i->order.flags & ORDER_COMPILE)
		make_build_dir();
	return island_starts_warm(i) ? become(i, argv, env) : island_exec(i, argv, env);
}

/* PID 2 until it execs. It shares memory with init, which sleeps meanwhile. */
static int program_main(void *arg)
{
	struct program *p = arg;
	/* Init's memory, but not init's fds: what the steps note of those is ours alone. */
	struct island mine = *p->island;

	return island_program(&mine, p->argv, p->env);
}

/* Of the plan's own length, not on the stack: a large environment is allowed. */
char **island_list(const struct plan *p, struct plan_list l)
{
	const char *s = plan_first(p, l);
	char **out = calloc(l.len + 1, sizeof(*out));

	if (!out)
		_exit(125);
	for (uint32_t n = 0; n < l.len; n++, s = plan_next(s))
		out[n] = (char *)(uintptr_t)s;
	return out;
}

/*
 * vfork by hand: the program's process borrows init's memory until it execs,
 * which saves copying page tables and a fault for every page touched after.
 */
pid_t island_vfork(struct island *i, char **argv, char **env)
{
	static char stack[PROGRAM_STACK] __attribute__((aligned(16)));
	struct program p = {.island = i, .argv = argv, .env = env};

#ifdef __SANITIZE_ADDRESS__
	/* Whoever had it before left by exec, and its frames still count as somebody's. */
	__asan_unpoison_memory_region(stack, sizeof(stack));
#endif
	return clone(program_main, stack + sizeof(stack), CLONE_VM | CLONE_VFORK | SIGCHLD, &p);
}

static pid_t start_program(struct island *i)
{
	char **argv = island_list(i->plan, i->plan->argv),
	     **env = island_list(i->plan, i->plan->env);
	pid_t pid;

	if (!i->single && !island_starts_warm(i))
		return island_vfork(i, argv, env);
	pid = i->interpreter->fork();
	if (pid == 0)
		_exit(island_program(i, argv, env));
	return pid;
}

/* Reaps whatever comes until the program is gone; returns its wait status. */
static int reap_until(pid_t program)
{
	for (;;) {
		int status;
		pid_t pid = waitpid(-1, &status, 0);

		/* A traced program stops, too, and is no less alive. */
		if (pid == program && (WIFEXITED(status) || WIFSIGNALED(status)))
			return status;
		if (pid < 0 && errno != EINTR)
			return -1;
	}
}

/* For who is not our parent, and has no cgroup to ask. */
static void note_spent(struct spent *ret)
{
	struct rusage used;

	if (getrusage(RUSAGE_CHILDREN, &used) < 0)
		return;
	ret->cpu_us = clock_cpu_us(&used);
	ret->memory_peak_bytes = (uint64_t)used.ru_maxrss * 1024;
}

/*
 * CLONE_CLEAR_SIGHAND leaves ignored signals ignored, and so would exec. Raw calls:
 * the C library keeps its own signals (32 to 34) out of reach, but not what a
 * caller left there.
 */
/*
 * Of all that was open where we were cloned, only what is for this island. With the launcher's
 * end of the socket gone its death is an end of stream to us; and with thousands of others gone
 * there is room below the limit of open files.
 */
static int let_go(const struct island *i)
{
	int keep[8 + 2 * PLAN_MOUNTS_MAX] = {i->control, i->launcher, i->image->fd, i->image->tree,
					     i->waiter ? i->waiter->module : -1};
	size_t n = 5;

	for (int k = 0; k < 3 && !i->ahead; k++)
		keep[n++] = i->stdio[k];
	for (uint32_t k = 0; k < i->plan->n_mounts && !i->interpreter; k++) {
		keep[n++] = i->hostdirs[k].fd;
		keep[n++] = i->hostdirs[k].tree;
	}
	return fd_close_others(keep, n);
}

void island_main(struct island *i)
{
	struct message end = {.kind = MESSAGE_EXITED};
	struct cay_error err;
	bool handed = false;
	pid_t pid;
	int r;

	if (let_go(i) < 0)
		_exit(125);
	i->root_fd = -1;
	i->scratch_fd = -1;
	i->waiter_sock = -1;
	for (int n = 0; n < COMMAND_DOORS; n++)
		i->command_cgroup[n] = -1;
	title_set("cay: init"); /* the caller's command line is not for the program's eyes */
	(void)prctl(PR_SET_NAME, "cay"); /* nor that it was an interpreter */
	(void)umask(0);
	signals_reset();
	r = run_steps(i, STEP_EARLY, &err);
	if (r == 0) {
		await(i, MESSAGE_MAPPED);
		r = run_steps(i, STEP_MAPPED, &err);
	}
	if (r == 0) {
		await(i, MESSAGE_LIMITED);
		r = run_steps(i, STEP_INIT, &err);
	}
	if (r == 0 && i->waiter)
		r = waiter_start(i, &err);
	if (r == 0 && i->ahead) {
		r = confine_waiting(i, &err);
		if (r == 0 && !i->single) {
			handed = orders_serve(i);
			r = confine_cpus(i, &err);
		}
	}
	if (r < 0)
		give_up(i, &err);
	pid = handed ? i->waiter_pid : start_program(i);
	if (pid < 0) {
		(void)cay_fail(&err, CAY_E_ENGINE, errno, "start the program's process");
		give_up(i, &err);
	}
	/* From here on PID 1 only reaps. It keeps nothing that is worth taking. */
	if (confine_init(i, &err) < 0)
		give_up(i, &err);
	end.status = reap_until(pid);
	note_spent(&end.spent);
	(void)msg_send(i->control, &end, sizeof(end), NULL, 0);
	_exit(0);
}
