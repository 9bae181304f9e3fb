#include "egress/client.h"

#include "base/attr.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/helper.h"
#include "egress/start.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define NUMBER 1 /* of the only network */

#define OPENED_MS 10000
#define CLOSED_MS 2000

/* What it logs is for a daemon's journal: here the run's result says the same. */
static int be_silent(void)
{
	_cleanup_(fd_closep) int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (int n = 0; n < 3; n++)
		if (null < 0 || dup2(null, n) < 0)
			return -errno;
	return 0;
}

int egress_client_start(struct egress_client *c, const struct settings *s, struct cay_error *err)
{
	_cleanup_(fd_closep) int program = helper_open("cay-egress"), settings = -1, theirs = -1;
	pid_t self = getpid();
	int pair[2];

	*c = EGRESS_CLIENT_NONE;
	if (program < 0) {
		(void)cay_fail(err, CAY_E_ENGINE, -program,
			       "find cay-egress, which carries an island's connections");
		return cay_hint(err, "it is beside cay where that was built, and in libexec/cay "
				     "where it was installed");
	}
	settings = egress_settings(s);
	if (settings < 0)
		return cay_fail(err, CAY_E_INTERNAL, -settings, "hand the settings on");
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return cay_fail(err, CAY_E_INTERNAL, errno, "start cay-egress");
	c->channel = pair[0];
	theirs = pair[1];
	c->pid = fork();
	if (c->pid == 0) {
		/* Ctrl-C is for the program. */
		(void)setpgid(0, 0);
		if (be_silent() < 0)
			_exit(126);
		egress_become(program, theirs, settings, -1, self);
	}
	if (c->pid < 0) {
		fd_closep(&c->channel);
		c->pid = 0;
		return cay_fail(err, CAY_E_INTERNAL, errno, "start cay-egress");
	}
	return 0;
}

/* The next answer of this kind within a time: its length, or -errno. */
static ssize_t await(const struct egress_client *c, uint32_t kind, int ms,
		     struct egress_answer *ret)
{
	uint64_t deadline = clock_now_ns() + (uint64_t)ms * 1000000;
	size_t n_fds;
	ssize_t n;

	do {
		struct pollfd wait = {.fd = c->channel, .events = POLLIN};
		uint64_t now = clock_now_ns();
		int left = now < deadline ? (int)((deadline - now) / 1000000) + 1 : 0;
		int ready = poll(&wait, 1, left);

		if (ready == 0)
			return -ETIMEDOUT;
		/* A signal is no answer: to read then would be to wait for good. */
		n = ready < 0 ? -errno
			      : msg_recv(c->channel, ret, EGRESS_ANSWER_MAX, NULL, 0, &n_fds);
		if (n == 0)
			return -EPIPE;
		if (n < 0 && n != -EINTR)
			return n;
		if (n >= (ssize_t)sizeof(*ret) && ret->kind == ANSWER_FAILED)
			return -ECANCELED;
	} while (n < (ssize_t)sizeof(*ret) || ret->kind != kind);
	return n;
}

static int failed(const struct egress_answer *a, ssize_t r, struct cay_error *err)
{
	if (r != -ECANCELED)
		return cay_fail(err, CAY_E_ENGINE, (int)-r, "start cay-egress");
	*err = a->error;
	cay_error_mend(err);
	return -1;
}

static int say_open(const struct egress_client *c, const struct egress_rules *r,
		    const int wires[EGRESS_FDS])
{
	char *packet = malloc(EGRESS_REQUEST_MAX);
	const struct egress_request q = {.kind = EGRESS_OPEN, .number = NUMBER};
	ssize_t n = packet ? egress_pack(&q, r, packet) : -ENOMEM;

	if (n > 0)
		n = msg_send(c->channel, packet, (size_t)n, wires, EGRESS_FDS);
	free(packet);
	return (int)n;
}

int egress_client_open(struct egress_client *c, const struct egress_rules *r,
		       const int wires[EGRESS_FDS], struct cay_error *err)
{
	struct egress_answer *a = calloc(1, EGRESS_ANSWER_MAX);
	ssize_t n = a ? say_open(c, r, wires) : -ENOMEM;

	if (n == 0)
		n = await(c, ANSWER_DONE, OPENED_MS, a);
	n = n < 0 ? failed(a, n, err) : 0;
	free(a);
	return (int)n;
}

void egress_client_end(struct egress_client *c, struct egress_log *ret)
{
	const struct egress_request q = {.kind = EGRESS_CLOSE, .number = NUMBER};
	struct egress_answer *a;
	ssize_t n = -EPIPE;

	*ret = (struct egress_log){0};
	if (c->pid == 0)
		return;
	a = calloc(1, EGRESS_ANSWER_MAX);
	if (a && msg_send(c->channel, &q, sizeof(q), NULL, 0) == 0)
		n = await(c, ANSWER_CLOSED, CLOSED_MS, a);
	if (n < 0 || egress_unpack(a, (size_t)n, ret) < 0)
		*ret = egress_log_lost();
	free(a);
	(void)kill(c->pid, SIGKILL);
	while (waitpid(c->pid, NULL, 0) < 0 && errno == EINTR)
		;
	fd_closep(&c->channel);
	*c = EGRESS_CLIENT_NONE;
}
