#include "cli/bench_spawn.h"

#include "base/attr.h"
#include "base/clock.h"
#include "base/fd.h"
#include "engine/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* How long a program may take to end when it was asked to. */
#define STOP_MS 3000

struct running {
	pid_t pid;
	int pidfd;
	int output; /* read end; -1: none, or it ended */
	uint64_t start_ns;
};

static int open_streams(posix_spawn_file_actions_t *actions, const struct spawn *what, int output)
{
	int r = posix_spawn_file_actions_addopen(actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);

	for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO && r == 0; fd++)
		r = output >= 0 ? posix_spawn_file_actions_adddup2(actions, output, fd)
				: posix_spawn_file_actions_addopen(actions, fd, "/dev/null",
								   O_WRONLY, 0);
	if (r == 0 && what->dir)
		r = posix_spawn_file_actions_addchdir_np(actions, what->dir);
	return r;
}

static int set_signals(posix_spawnattr_t *attr, const struct spawner *s)
{
	sigset_t usual;
	int r;

	(void)sigemptyset(&usual);
	(void)sigaddset(&usual, SIGPIPE);
	r = posix_spawnattr_setflags(attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
						   POSIX_SPAWN_SETPGROUP);
	if (r == 0)
		r = posix_spawnattr_setsigmask(attr, &s->before);
	if (r == 0)
		r = posix_spawnattr_setsigdefault(attr, &usual);
	return r;
}

static int start(const struct spawner *s, const struct spawn *what, int output, struct running *ret,
		 struct cay_error *err)
{
	char *const *argv = what->argv->items;
	char *const *env = what->env && what->env->len > 0 ? what->env->items : environ;
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	int r;

	(void)posix_spawn_file_actions_init(&actions);
	(void)posix_spawnattr_init(&attr);
	r = open_streams(&actions, what, output);
	if (r == 0)
		r = set_signals(&attr, s);
	ret->start_ns = clock_now_ns();
	if (r == 0)
		r = posix_spawnp(&ret->pid, argv[0], &actions, &attr, argv, env);
	(void)posix_spawnattr_destroy(&attr);
	(void)posix_spawn_file_actions_destroy(&actions);
	if (r != 0)
		return cay_fail(err, CAY_E_NOT_FOUND, r, "start %.64s", argv[0]);
	ret->pidfd = sys_pidfd_open(ret->pid);
	return 0;
}

/* What is more than the buffer takes is read all the same, so that nobody waits. */
static void read_output(struct running *p, struct buf *output)
{
	char data[4096];
	ssize_t n = read(p->output, data, sizeof(data));

	if (n > 0)
		(void)buf_append(output, data, (size_t)n);
	else if (n == 0 || (errno != EAGAIN && errno != EINTR))
		fd_closep(&p->output);
}

static void take_signal(struct spawner *s)
{
	struct signalfd_siginfo info;

	if (read(s->signals, &info, sizeof(info)) == (ssize_t)sizeof(info))
		s->cancelled = (int)info.ssi_signo;
}

/* Until the program is gone (true), or has to go (false). */
static bool wait_until_gone(struct spawner *s, const struct spawn *what, struct running *p)
{
	uint64_t end_ns = p->start_ns + what->timeout_ms * 1000000;

	for (;;) {
		struct pollfd fds[] = {
			{p->pidfd, POLLIN, 0}, {s->signals, POLLIN, 0}, {p->output, POLLIN, 0}};
		uint64_t now = clock_now_ns();

		if (now >= end_ns || s->cancelled)
			return false;
		if (poll(fds, ARRAY_LEN(fds), (int)((end_ns - now) / 1000000) + 1) < 0 &&
		    errno != EINTR)
			return false;
		if (fds[2].revents)
			read_output(p, what->output);
		if (fds[1].revents)
			take_signal(s);
		if (fds[0].revents)
			return true;
	}
}

static void stop(const struct running *p)
{
	struct pollfd f = {p->pidfd, POLLIN, 0};

	(void)kill(-p->pid, SIGTERM);
	(void)poll(&f, 1, STOP_MS);
	(void)kill(-p->pid, SIGKILL);
}

int spawn_wait(struct spawner *s, const struct spawn *what, struct spawned *ret,
	       struct cay_error *err)
{
	struct running p = {.pid = -1, .pidfd = -1, .output = -1};
	int ends[2] = {-1, -1}, r;

	*ret = (struct spawned){0};
	if (what->output && pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
		return cay_fail(err, CAY_E_INTERNAL, errno, "make a pipe");
	p.output = ends[0];
	/* The writer is a stranger, and does not expect this. */
	if (ends[1] >= 0)
		(void)fd_set_nonblock(ends[1], 0);
	r = start(s, what, ends[1], &p, err);
	fd_closep(&ends[1]);
	if (r == 0) {
		ret->stopped = !wait_until_gone(s, what, &p);
		if (ret->stopped)
			stop(&p);
		while (waitpid(p.pid, &ret->status, 0) < 0 && errno == EINTR)
			;
		ret->ms = clock_ms_since(p.start_ns);
	}
	while (r == 0 && p.output >= 0 && !ret->stopped) {
		struct pollfd f = {p.output, POLLIN, 0};

		/* What it left running may hold the pipe: that is not waited for. */
		if (poll(&f, 1, 0) <= 0)
			break;
		read_output(&p, what->output);
	}
	fd_closep(&p.output);
	fd_closep(&p.pidfd);
	return r;
}
