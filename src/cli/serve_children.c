#include "cli/serve_children.h"

#include "base/log.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int start(struct serve_child *c, void *ctx)
{
	pid_t self = getpid(), pid = fork();

	if (pid < 0)
		return -errno;
	if (pid == 0)
		c->be(ctx, self);
	c->pid = pid;
	return 0;
}

int serve_children_start(struct serve_child *list, size_t n, void *ctx)
{
	int r = 0;

	for (struct serve_child *c = list; c < list + n && r == 0; c++)
		r = start(c, ctx);
	return r;
}

static bool has_ended(pid_t pid)
{
	siginfo_t info = {0};

	return pid > 0 && waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
	       info.si_pid == pid;
}

bool serve_children_ended(const struct serve_child *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!list[i].alone && has_ended(list[i].pid))
			return true;
	return false;
}

void serve_children_signal(const struct serve_child *list, size_t n, int signal)
{
	for (size_t i = 0; i < n; i++)
		if (list[i].leads && list[i].pid > 0)
			(void)kill(list[i].pid, signal);
}

void serve_children_kill(const struct serve_child *list, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (list[i].alone && strcmp(list[i].name, name) == 0 && list[i].pid > 0)
			(void)kill(list[i].pid, SIGKILL);
}

static void reap(struct serve_child *c, bool expected)
{
	char how[64];
	int status = 0;

	while (waitpid(c->pid, &status, 0) < 0 && errno == EINTR)
		;
	c->pid = 0;
	if (expected || status == 0)
		return;
	if (WIFSIGNALED(status))
		(void)snprintf(how, sizeof(how), "signal %d", WTERMSIG(status));
	else
		(void)snprintf(how, sizeof(how), "code %d", WEXITSTATUS(status));
	log_error("a process of the daemon ended", "which", c->name, "by", how);
}

int serve_children_revive(struct serve_child *list, size_t n, void *ctx)
{
	int count = 0;

	for (struct serve_child *c = list; c < list + n; c++) {
		int r;

		if (!c->alone || !has_ended(c->pid))
			continue;
		reap(c, false);
		r = start(c, ctx);
		if (r < 0)
			return r;
		count++;
	}
	return count;
}

void serve_children_stop(struct serve_child *list, size_t n)
{
	while (n-- > 0) {
		struct serve_child *c = &list[n];
		bool ours = (c->leads || c->alone) && !has_ended(c->pid);

		if (c->pid <= 0)
			continue;
		if (ours)
			(void)kill(c->pid, SIGKILL);
		reap(c, ours);
	}
}
