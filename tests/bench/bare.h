/* bare.h: a program without any island, from its start until its output is read and it is gone. */
#pragma once

#include "engine/pipes.h"

#include <errno.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

/* All that comes, until both ends are closed. */
static inline size_t drain(struct pipes *p)
{
	struct pollfd f[2] = {{.fd = p->ours[1], .events = POLLIN},
			      {.fd = p->ours[2], .events = POLLIN}};
	size_t total = 0;
	char text[4096];

	while (f[0].fd >= 0 || f[1].fd >= 0) {
		if (poll(f, 2, -1) < 0)
			continue;
		for (int k = 0; k < 2; k++) {
			ssize_t n = f[k].revents ? read(f[k].fd, text, sizeof(text)) : -1;

			if (n == 0)
				f[k].fd = -1;
			total += n > 0 ? (size_t)n : 0;
		}
	}
	return total;
}

/* 0, or -1 where it failed, which errno may say something about. */
static inline int bare_run(char *const *argv, char *const *env)
{
	struct pipes pipes;
	struct cay_error err;
	int status;
	pid_t pid;

	if (pipes_open(&pipes, 0, &err) < 0)
		return -1;
	pid = vfork();
	if (pid == 0) {
		for (int n = 0; n < 3; n++)
			if (dup2(pipes.theirs[n], n) < 0)
				_exit(125);
		(void)execve(argv[0], argv, env);
		_exit(127);
	}
	pipes_close_theirs(&pipes);
	if (pid > 0)
		(void)drain(&pipes);
	pipes_done(&pipes);
	errno = EPROTO;
	return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0 ? 0 : -1;
}
