/*
 * plain.c: a zygote's engine half without islands: only fork(), so that the interpreter's half can
 * be compared with a cold start, and measured. plain.py is its client.
 *
 * A request is one packet: MASK CWD ARGC ARGV... ENV..., each ended by NUL, with an fd for each bit
 * of MASK (1: standard input, 2: output, 4: errors). The answer is a struct answer.
 */
#include "warm/interpreter.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { WORDS = 20000, BYTES = 4 << 20 };

struct answer {
	int64_t status;
	int64_t wall_ns; /* from the packet to the end of the process */
	int64_t cpu_us;
	int64_t faults;
	int64_t stale;
};

struct request {
	char text[BYTES];
	char *words[WORDS];
	int fds[3];
	int mask;
	char *cwd;
	char **argv, **env;
};

static int64_t now_ns(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* false: the other end has closed. */
static bool take(int sock, struct request *r)
{
	union {
		char bytes[CMSG_SPACE(3 * sizeof(int))];
		struct cmsghdr align;
	} control;
	struct iovec iov = {r->text, sizeof(r->text) - 1};
	struct msghdr m = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = control.bytes,
			   .msg_controllen = sizeof(control.bytes)};
	ssize_t len = recvmsg(sock, &m, MSG_CMSG_CLOEXEC);
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	size_t n = 0;
	long argc;

	if (len <= 0)
		return false;
	r->text[len] = 0;
	for (char *p = r->text; p < r->text + len && n < WORDS - 2; p += strlen(p) + 1)
		r->words[n++] = p;
	r->words[n] = NULL;
	r->mask = (int)strtol(r->words[0], NULL, 10);
	r->cwd = r->words[1];
	argc = strtol(r->words[2], NULL, 10);
	r->argv = r->words + 3;
	/* Room for the end of argv: one word up. */
	memmove(r->argv + argc + 1, r->argv + argc, (n + 1 - 3 - (size_t)argc) * sizeof(char *));
	r->argv[argc] = NULL;
	r->env = r->argv + argc + 1;
	if (c && c->cmsg_type == SCM_RIGHTS)
		memcpy(r->fds, CMSG_DATA(c), c->cmsg_len - CMSG_LEN(0));
	return true;
}

static void drop_fds(const struct request *r)
{
	for (int i = 0, n = 0; i < 3; i++)
		if (r->mask & (1 << i))
			(void)close(r->fds[n++]);
}

__attribute__((noreturn)) static void child(const struct interpreter *in, struct request *r)
{
	sigset_t none;

	for (int s = 1; s < NSIG; s++)
		(void)signal(s, SIG_DFL);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	for (int i = 0, n = 0; i < 3; i++) {
		if (r->mask & (1 << i))
			(void)dup2(r->fds[n++], i);
		else
			(void)close(i);
	}
	(void)close_range(3, ~0U, 0);
	if (chdir(r->cwd) < 0)
		_exit(254);
	in->run(r->argv, r->env);
}

void zygote_serve(int sock, const struct interpreter *in)
{
	static struct request r;

	while (take(sock, &r)) {
		int64_t start = now_ns();
		struct answer a = {0};
		struct rusage used = {0};
		pid_t pid = in->fork();
		int status = 0;

		if (pid == 0)
			child(in, &r);
		drop_fds(&r);
		while (wait4(pid, &status, 0, &used) < 0 && errno == EINTR)
			;
		a.status = status;
		a.wall_ns = now_ns() - start;
		a.cpu_us = (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000 +
			   used.ru_utime.tv_usec + used.ru_stime.tv_usec;
		a.faults = used.ru_minflt;
		a.stale = in->stale();
		(void)send(sock, &a, sizeof(a), MSG_NOSIGNAL);
	}
	_exit(0);
}
