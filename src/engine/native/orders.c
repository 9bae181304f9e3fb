#include "engine/native/orders.h"

#include "base/attr.h"
#include "base/clock.h"
#include "base/fd.h"
#include "engine/native/bare.h"
#include "engine/native/confine.h"
#include "engine/processes.h"
#include "engine/native/waiter.h"
#include "warm/interpreter.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROGRAM_OOM_SCORE "600" /* thousandths of the limit, beside its own size */

#define ORDER_FDS (3 + COMMAND_DOORS) /* stdio, and the command's cgroups */

/* What runs now; a command beyond this many is refused. */
static struct {
	pid_t pid;
	uint32_t number;
} commands[COMMANDS_MAX];

/* By their groups, which is all there is to tell them by. */
static void kill_groups(void)
{
	for (size_t n = 0; n < COMMANDS_MAX; n++)
		if (commands[n].pid > 0)
			(void)kill(-commands[n].pid, SIGKILL);
}

/* With PID 1 an island ends; without one all that runs must be ended first. */
_noreturn_ static void leave(const struct island *i)
{
	if (i->bare) {
		steward_end(i);
		kill_groups();
	}
	_exit(125);
}

static void tell(const struct island *i, const struct message *m)
{
	/* Without a launcher there is nothing to live for. */
	if (msg_send(i->control, m, sizeof(*m), NULL, 0) < 0)
		leave(i);
}

static void refuse(const struct island *i, uint32_t command, const struct cay_error *err)
{
	struct message m = {.kind = MESSAGE_FAILED, .command = command, .error = *err};

	tell(i, &m);
}

static void close_order(struct island *i)
{
	for (int n = 0; n < 3; n++)
		fd_closep(&i->stdio[n]);
	for (int n = 0; n < COMMAND_DOORS; n++)
		fd_closep(&i->command_cgroup[n]);
}

/* The plan that follows an order, in the room for it. */
static const struct plan *take_plan(const struct island *i, const struct plan *made_for)
{
	static uint64_t room[ORDER_PLAN_MAX / sizeof(uint64_t)];
	static size_t used;
	const struct plan *p = (const struct plan *)room;
	struct cay_error err;
	size_t none;
	ssize_t n;

	/* Where a command is no exec, it would find the one before's. */
	memset(room, 0, used);
	n = msg_recv(i->control, room, sizeof(room), NULL, 0, &none);
	used = n < 0 ? sizeof(room) : (size_t)n;
	if (n < 0 || plan_check(p, (size_t)n, &err) < 0 || !plan_fits_order(made_for, p))
		leave(i);
	return p;
}

/* The order's plan and its fds. Anything that is not in order ends us. */
static void take_order(struct island *i, const struct plan *made_for, const struct message *m,
		       int fds[ORDER_FDS], size_t n_fds)
{
	bool cgroup = m->order.flags & ORDER_CGROUP;

	if ((cgroup ? n_fds < 4 : n_fds != 3) || m->order.flags & ~(uint32_t)ORDER_FLAGS_ALL)
		leave(i);
	memcpy(i->stdio, fds, sizeof(i->stdio));
	memcpy(i->command_cgroup, fds + 3, sizeof(i->command_cgroup));
	i->plan = m->order.flags & ORDER_OWN ? made_for : take_plan(i, made_for);
	i->command = m->command;
	i->order = m->order;
}

/*
 * PID 1 that is an interpreter is larger than many a program, and with it the island would go:
 * where memory runs out, programs are to go first. Who may write that file is the owner of a
 * process whose memory can be looked at; for this moment only root of the island could look, and
 * that is us.
 */
static int go_first(const struct island *i, struct cay_error *err)
{
	int r;

	/* Who has one id has no limit that the kernel would end it for; who is alone there, no
	 * other. */
	if (!i->interpreter || !i->many_ids || !(i->order.flags & ORDER_CGROUP))
		return 0;
	(void)prctl(PR_SET_DUMPABLE, 1);
	r = fd_write_file_at(AT_FDCWD, "/proc/self/oom_score_adj", PROGRAM_OOM_SCORE);
	(void)prctl(PR_SET_DUMPABLE, 0); /* the facts have it */
	return r < 0 ? cay_fail(err, CAY_E_ENGINE, -r, "be the first to go") : 0;
}

_noreturn_ static void be_command(struct island *i)
{
	bool compile = i->order.flags & ORDER_COMPILE;
	char **argv = island_list(i->plan, compile ? i->plan->compile : i->plan->argv);
	struct cay_error err;

	if (i->bare)
		_exit(steward_command(i));
	i->ahead = false;
	if (go_first(i, &err) < 0 ||
	    (!i->zygote && (confine_cpus(i, &err) < 0 || confine_rlimits(i, &err) < 0))) {
		refuse(i, i->command, &err);
		_exit(125);
	}
	_exit(island_program(i, argv, island_list(i->plan, i->plan->env)));
}

/* They are told of by a file. The C library's fork() looks at no answer, and so may undo it. */
static int block_children(sigset_t *ret_child, sigset_t *ret_before)
{
	(void)sigemptyset(ret_child);
	(void)sigaddset(ret_child, SIGCHLD);
	return sigprocmask(SIG_BLOCK, ret_child, ret_before);
}

static int watch_children(sigset_t *before)
{
	sigset_t child;

	if (block_children(&child, before) < 0)
		return -1;
	return signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
}

static void start_command(struct island *i)
{
	sigset_t child;
	struct cay_error err;
	size_t n = 0;

	while (n < COMMANDS_MAX && commands[n].pid > 0)
		n++;
	if (n == COMMANDS_MAX) {
		(void)cay_fail(&err, CAY_E_AT_CAPACITY, 0, "%d commands run there already",
			       COMMANDS_MAX);
		refuse(i, i->command, &err);
		return;
	}
	commands[n].number = i->command;
	if (waiter_hand_over(i)) {
		commands[n].pid = i->waiter_pid;
		return;
	}
	if (!(i->order.flags & (ORDER_CHECK | ORDER_AGENT)))
		waiter_drop(i);
	commands[n].pid = i->interpreter ? i->interpreter->fork() : fork();
	if (commands[n].pid == 0)
		be_command(i);
	if (block_children(&child, NULL) < 0)
		leave(i);
	if (commands[n].pid < 0) {
		(void)cay_fail(&err, CAY_E_AT_CAPACITY, errno, "start another process there");
		(void)cay_hint(&err, "the limit of processes may be reached: end some");
		refuse(i, i->command, &err);
	}
}

static void tell_end(const struct island *i, pid_t pid, int status, const struct rusage *used)
{
	struct message m = {.kind = MESSAGE_EXITED, .status = status};

	for (size_t n = 0; n < COMMANDS_MAX; n++) {
		if (commands[n].pid != pid)
			continue;
		commands[n].pid = 0;
		m.command = commands[n].number;
		m.spent.cpu_us = clock_cpu_us(used);
		m.spent.memory_peak_bytes = (uint64_t)used->ru_maxrss * 1024;
		tell(i, &m);
		return;
	}
}

/*
 * Where no cgroup can find it later: what a command leaves ends with it. Before it is
 * reaped, or its number could be another group's.
 */
static void end_left(const struct island *i)
{
	siginfo_t ended = {0};

	if (i->bare && i->end_all < 0 &&
	    waitid(P_ALL, 0, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid > 0)
		(void)kill(-ended.si_pid, SIGKILL);
}

static void reap(struct island *i, int signals)
{
	struct signalfd_siginfo unused;
	struct rusage used;
	int status;
	pid_t pid;

	(void)!read(signals, &unused, sizeof(unused));
	do {
		end_left(i);
		pid = wait4(-1, &status, WNOHANG, &used);
		if (pid < 0 && errno != ECHILD && errno != EINTR)
			leave(i); /* it would never hear of an end */
		if (pid > 0 && (WIFEXITED(status) || WIFSIGNALED(status)) && !waiter_ended(i, pid))
			tell_end(i, pid, status, &used);
	} while (pid > 0 || (pid < 0 && errno == EINTR));
}

/* With all it started; others are spared, but for what they left in the background. */
static void end_command(uint32_t number)
{
	pid_t others[COMMANDS_MAX];
	size_t n_others = 0;
	bool runs = false;

	for (size_t n = 0; n < COMMANDS_MAX; n++) {
		if (commands[n].pid <= 0)
			continue;
		if (commands[n].number == number)
			runs = true;
		else
			others[n_others++] = commands[n].pid;
	}
	if (runs)
		processes_kill_but(others, n_others);
}

/*
 * By the number that fork() gave us, of one that we have not reaped: whatever a program says of
 * itself, it is its group, and on this island. One that is not a group's leader yet has not begun.
 */
static void interrupt_command(uint32_t number)
{
	for (size_t n = 0; n < COMMANDS_MAX; n++)
		if (commands[n].pid > 0 && commands[n].number == number)
			(void)kill(-commands[n].pid, SIGINT);
}

/*
 * What a compiler left could look into the program's process in the middle of its exec,
 * where "#!/proc/self/exe" makes cay the program; and until it is reaped it has a share of
 * the limit of processes.
 */
static void end_all(void)
{
	(void)kill(-1, SIGKILL); /* ESRCH: there was nobody */
	while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
		;
}

void orders_take_last(struct island *i)
{
	struct message m;
	int fds[ORDER_FDS] = {-1, -1, -1, -1, -1};
	size_t n_fds;
	ssize_t n = msg_recv(i->control, &m, sizeof(m), fds, ORDER_FDS, &n_fds);

	if (n != (ssize_t)sizeof(m) || m.kind != MESSAGE_ORDER || !(m.order.flags & ORDER_LAST))
		_exit(125);
	take_order(i, i->plan, &m, fds, n_fds);
	i->ahead = false;
}

/* True: it was the last. */
static bool obey(struct island *i, const struct plan *made_for)
{
	struct message m;
	int fds[ORDER_FDS] = {-1, -1, -1, -1, -1};
	size_t n_fds;
	ssize_t n = msg_recv(i->control, &m, sizeof(m), fds, ORDER_FDS, &n_fds);

	if (n != (ssize_t)sizeof(m))
		leave(i);
	if (m.kind == MESSAGE_CLEAR && n_fds == 0) {
		if (i->bare)
			kill_groups();
		else if (m.command)
			end_command(m.command);
		else
			(void)kill(-1, SIGKILL); /* ESRCH: there was nobody */
		return false;
	}
	if (m.kind == MESSAGE_INTERRUPT && n_fds == 0) {
		interrupt_command(m.command);
		return false;
	}
	if (m.kind != MESSAGE_ORDER)
		leave(i);
	take_order(i, made_for, &m, fds, n_fds);
	if (m.order.flags & ORDER_LAST && !i->bare) {
		i->handed = waiter_hand_over(i);
		if (!i->handed)
			end_all();
		return true;
	}
	start_command(i);
	close_order(i);
	return false;
}

bool orders_serve(struct island *i)
{
	const struct plan *made_for = i->plan;
	sigset_t before;
	int signals = watch_children(&before);
	struct pollfd wait[] = {{.fd = i->control, .events = POLLIN},
				{.fd = signals, .events = POLLIN}};
	bool last = false;

	if (signals < 0)
		_exit(125);
	if (i->waiter)
		reap(i, signals); /* it may have ended before it was watched */
	while (!last) {
		int n = poll(wait, ARRAY_LEN(wait), -1);

		if (n < 0 && errno != EINTR)
			leave(i);
		if (n < 0)
			continue; /* what they have in them is from before */
		if (wait[1].revents)
			reap(i, signals);
		if (wait[0].revents)
			last = obey(i, made_for);
	}
	(void)close(signals);
	if (sigprocmask(SIG_SETMASK, &before, NULL) < 0)
		_exit(125);
	i->ahead = false;
	return i->handed;
}
