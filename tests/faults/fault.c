/*
 * fault REPORT ANSWER SECONDS ROLE N ERRNO COMMAND [ARG...]
 *
 * Runs a command and makes one of its system calls fail: the Nth of the process
 * ROLE, with ERRNO (a number; where it is negative, a poll fails when it has waited,
 * and not at once). Roles are counted from 0, the command itself, in the order in
 * which processes are made: of `cay run` 1 is the island's init and 2 the program's
 * process. With N 0 nothing fails. What a process does after its exec is the user's
 * code and not looked at.
 *
 * A process that execs is held until its parent waits for it (all of an island is
 * in place then), told to REPORT, and goes on when a byte comes from ANSWER; both
 * are numbers of fds. REPORT gets lines:
 *
 *   call ROLE N NAME A B     with N 0: every call, with its first arguments
 *   failed ROLE N NAME A B   the call that failed
 *   ready PID PARENT         held before its first instruction
 *   crashed ROLE SIGNAL      ended by a signal that is not SIGKILL
 *   calls ROLE N             so many were made
 *   late                     SECONDS were over: everything was killed
 *   left PID                 still there a second after the command's end: killed
 *   ended PID STATUS         the command, as wait() has it; always the last line
 */
#include <errno.h>
#include <fcntl.h>
#include <seccomp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/ptrace.h>

#ifdef __x86_64__
#include <sys/reg.h>
#else
#error "the registers are x86_64's"
#endif

#define TASKS_MAX 64

#define OPTIONS                                                                                   \
	(PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE | \
	 PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL)

struct task {
	pid_t pid;
	struct task *parent; /* NULL until its birth is told: it waits for that */
	int role;
	unsigned long calls;
	bool counted; /* false before the command's own exec */
	bool waits;   /* for a child */
	bool held;    /* behind its exec */
	bool failing;
	bool alive;
};

static struct task tasks[TASKS_MAX];
static int n_tasks, n_alive;
static FILE *report;
static int answer;
static int want_role, want_errno;
static bool want_waited;
static unsigned long want_call;
static volatile sig_atomic_t over;

static void on_alarm(int sig)
{
	(void)sig;
	over = 1;
}

static void die(const char *what)
{
	perror(what);
	exit(2); /* PTRACE_O_EXITKILL does the rest */
}

static struct task *task_of(pid_t pid)
{
	for (int n = 0; n < n_tasks; n++)
		if (tasks[n].pid == pid && tasks[n].alive)
			return &tasks[n];
	if (n_tasks == TASKS_MAX)
		die("too many processes");
	tasks[n_tasks] = (struct task){.pid = pid, .role = n_tasks, .alive = true};
	n_alive++;
	return &tasks[n_tasks++];
}

static void lose(struct task *t)
{
	t->alive = false;
	n_alive--;
}

/* It may have been killed meanwhile: that is told by waitpid(). */
static void go_on(const struct task *t, int sig)
{
	(void)ptrace(PTRACE_SYSCALL, t->pid, 0, sig);
}

static void release(struct task *t)
{
	char byte;

	(void)fprintf(report, "ready %d %d\n", t->pid, t->parent->pid);
	(void)fflush(report);
	if (read(answer, &byte, 1) != 1)
		die("no answer");
	(void)ptrace(PTRACE_DETACH, t->pid, 0, 0);
	lose(t);
}

static void release_children(const struct task *parent)
{
	for (int n = 0; n < n_tasks; n++)
		if (tasks[n].alive && tasks[n].held && tasks[n].parent == parent)
			release(&tasks[n]);
}

static void tell_call(const char *word, const struct task *t, const struct ptrace_syscall_info *i)
{
	char *name = seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, (int)i->entry.nr);

	(void)fprintf(report, "%s %d %lu %s %llx %llx\n", word, t->role, t->calls,
		      name ? name : "?", (unsigned long long)i->entry.args[0],
		      (unsigned long long)i->entry.args[1]);
	free(name);
}

/* Those that don't come back, and those that the kernel always answers. */
static bool can_fail(unsigned long long nr)
{
	switch (nr) {
	case SYS_exit:
	case SYS_exit_group:
	case SYS_rt_sigreturn:
	case SYS_getpid:
	case SYS_geteuid:
	case SYS_getegid:
	case SYS_umask:
	case SYS_set_tid_address:
		return false;
	default:
		return true;
	}
}

static void enter_call(struct task *t, const struct ptrace_syscall_info *i)
{
	/* By the second, an init that takes orders waits for them and for its children alike. */
	t->waits = i->entry.nr == SYS_wait4 || (t->role == 1 && i->entry.nr == SYS_poll);
	if (t->waits)
		release_children(t);
	if (!t->counted || !can_fail(i->entry.nr))
		return;
	t->calls++;
	if (want_call == 0)
		tell_call("call", t, i);
	if (t->role != want_role || t->calls != want_call)
		return;
	tell_call("failed", t, i);
	t->failing = true;
	if (i->entry.nr == SYS_close)
		return; /* whatever it says, the fd is gone */
	if (i->entry.nr == SYS_poll && want_waited)
		return;
	/* Not -1: an island's filter would have its say about that. */
	if (ptrace(PTRACE_POKEUSER, t->pid, 8 * ORIG_RAX, SYS_getpid) < 0)
		die("replace a system call");
}

static void leave_call(struct task *t)
{
	t->waits = false;
	if (t->failing && ptrace(PTRACE_POKEUSER, t->pid, 8 * RAX, -(long)want_errno) < 0)
		die("fail a system call");
	t->failing = false;
}

static void on_call(struct task *t)
{
	struct ptrace_syscall_info i;

	if (ptrace(PTRACE_GET_SYSCALL_INFO, t->pid, sizeof(i), &i) < 0)
		return; /* killed */
	if (i.op == PTRACE_SYSCALL_INFO_ENTRY)
		enter_call(t, &i);
	else if (i.op == PTRACE_SYSCALL_INFO_EXIT)
		leave_call(t);
	go_on(t, 0);
}

static void on_birth(struct task *parent)
{
	unsigned long pid;
	struct task *child;
	bool waits_for_us;

	if (ptrace(PTRACE_GETEVENTMSG, parent->pid, 0, &pid) < 0)
		return;
	waits_for_us = n_tasks > 0 && tasks[n_tasks - 1].pid == (pid_t)pid;
	child = task_of((pid_t)pid);
	child->parent = parent;
	child->counted = true;
	if (waits_for_us)
		go_on(child, 0);
	go_on(parent, 0);
}

static void on_exec(struct task *t)
{
	if (t->role == 0) {
		t->counted = true;
		go_on(t, 0);
	} else if (t->parent->role == 0) {
		(void)ptrace(PTRACE_DETACH, t->pid, 0, 0); /* a helper, not an island */
		lose(t);
	} else if (t->parent->waits || !t->parent->alive) {
		release(t);
	} else {
		t->held = true;
	}
}

static void on_stop(struct task *t, int status)
{
	int sig = WSTOPSIG(status), event = status >> 16;

	if (sig == (SIGTRAP | 0x80))
		on_call(t);
	else if (event == PTRACE_EVENT_FORK || event == PTRACE_EVENT_VFORK ||
		 event == PTRACE_EVENT_CLONE)
		on_birth(t);
	else if (event == PTRACE_EVENT_EXEC)
		on_exec(t);
	else if (t->parent || t->role == 0)
		go_on(t, event == 0 ? sig : 0);
	/* else: just born, and its parent has not told yet */
}

static void on_end(struct task *t, int status)
{
	if (WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL)
		(void)fprintf(report, "crashed %d %d\n", t->role, WTERMSIG(status));
	lose(t);
	release_children(t);
}

/* Until all are gone; a second is given to those who outlive the command. */
static int trace(pid_t command)
{
	int end = -1, status;

	while (n_alive > 0) {
		pid_t pid = waitpid(-1, &status, __WALL);

		if (over) {
			(void)fprintf(report, end < 0 ? "late\n" : "");
			for (int n = 0; n < n_tasks; n++) {
				if (tasks[n].alive && end >= 0)
					(void)fprintf(report, "left %d\n", tasks[n].pid);
				if (tasks[n].alive)
					(void)kill(tasks[n].pid, SIGKILL);
			}
			over = 0;
		}
		if (pid < 0 && errno == EINTR)
			continue;
		if (pid < 0)
			break;
		if (WIFSTOPPED(status)) {
			on_stop(task_of(pid), status);
			continue;
		}
		on_end(task_of(pid), status);
		if (pid == command) {
			end = status;
			(void)alarm(1);
		}
	}
	return end;
}

static pid_t start(char **argv)
{
	int gate[2];
	pid_t pid;
	char byte;

	if (pipe2(gate, O_CLOEXEC) < 0)
		die("pipe");
	pid = fork();
	if (pid == 0) {
		(void)close(gate[1]);
		(void)!read(gate[0], &byte, 1);
		(void)execv(argv[0], argv);
		_exit(127);
	}
	if (pid < 0 || ptrace(PTRACE_SEIZE, pid, 0, OPTIONS) < 0)
		die("start the command");
	(void)task_of(pid);
	/* From here on its calls are seen, and counted from its exec on. */
	if (ptrace(PTRACE_INTERRUPT, pid, 0, 0) < 0)
		die("interrupt");
	(void)close(gate[0]);
	(void)close(gate[1]);
	return pid;
}

int main(int argc, char **argv)
{
	struct sigaction on = {.sa_handler = on_alarm};
	pid_t command;
	int status;

	if (argc < 8) {
		(void)fprintf(stderr,
			      "usage: fault REPORT ANSWER SECONDS ROLE N ERRNO COMMAND [ARG...]\n");
		return 2;
	}
	report = fdopen((int)strtol(argv[1], NULL, 10), "w");
	answer = (int)strtol(argv[2], NULL, 10);
	want_role = (int)strtol(argv[4], NULL, 10);
	want_call = strtoul(argv[5], NULL, 10);
	want_errno = abs((int)strtol(argv[6], NULL, 10));
	want_waited = argv[6][0] == '-';
	if (!report || fcntl(fileno(report), F_SETFD, FD_CLOEXEC) < 0 ||
	    fcntl(answer, F_SETFD, FD_CLOEXEC) < 0)
		die("REPORT and ANSWER");
	(void)sigaction(SIGALRM, &on, NULL);
	(void)alarm((unsigned)strtoul(argv[3], NULL, 10));
	command = start(argv + 7);
	status = trace(command);
	for (int n = 0; n < n_tasks; n++)
		(void)fprintf(report, "calls %d %lu\n", tasks[n].role, tasks[n].calls);
	(void)fprintf(report, "ended %d %d\n", command, status);
	return fclose(report) == 0 ? 0 : 2;
}
