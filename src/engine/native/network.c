#include "engine/native/network.h"

#include "base/attr.h"
#include "base/fd.h"
#include "engine/native/island.h"
#include "engine/native/wires.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAKER_STACK (32 * 1024)

/* Shared with the process that makes it, which borrows the launcher's memory. */
struct maker {
	int user_namespace, control;
	int *wires; /* or NULL */
	struct cay_error *err;
};

static int fail(struct cay_error *err, const char *what)
{
	return cay_fail(err, CAY_E_ENGINE, errno, "%s", what);
}

/* Not by a clone flag: there, the launcher would have to wait for it. */
int network_make(int *wires, struct cay_error *err)
{
	struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP};
	_cleanup_(fd_closep) int sock = -1;

	if (unshare(CLONE_NEWNET) < 0)
		return fail(err, "make a network namespace");
	sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (sock < 0 || ioctl(sock, SIOCSIFFLAGS, &lo) < 0)
		return fail(err, "bring up loopback");
	return wires ? wires_lay(wires, err) : 0;
}

int network_make_apart(int own)
{
	struct cay_error err;
	int fd = -1;

	if (network_make(NULL, &err) == 0)
		fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	if (setns(own, CLONE_NEWNET) < 0)
		abort(); /* this process is in the wrong network for good: nothing is safe to do */
	return fd;
}

/* In the island's user namespace, whose the network is to be: else init could not enter it. */
static int make_for_island(void *arg)
{
	const struct maker *m = arg;
	struct message say = {.kind = MESSAGE_NETWORK};
	_cleanup_(fd_closep) int net = -1;
	int r;

	if (m->user_namespace < 0)
		errno = -m->user_namespace;
	if (m->user_namespace < 0 || setns(m->user_namespace, CLONE_NEWUSER) < 0)
		return fail(m->err, "enter the island's user namespace");
	if (network_make(m->wires, m->err) < 0)
		return -1;
	net = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	if (net < 0)
		return fail(m->err, "hold the network namespace");
	r = msg_send(m->control, &say, sizeof(say), &net, 1);
	return r < 0 ? cay_fail(m->err, CAY_E_ENGINE, -r, "talk to the island") : 0;
}

/*
 * vfork by hand, as init starts the program: there is nothing to copy, and the
 * launcher, which has done its part, sleeps meanwhile. What it made outlives it
 * by the fd on its way. No signal tells of its end: a caller may count those. The fds
 * it opens are the launcher's, too.
 */
int network_provide(int user_namespace, int control, int *wires, struct cay_error *err)
{
	static char stack[MAKER_STACK] __attribute__((aligned(16)));
	struct maker m = {
		.user_namespace = user_namespace, .control = control, .wires = wires, .err = err};
	int status = -1;
	pid_t pid = clone(make_for_island, stack + sizeof(stack),
			  CLONE_VM | CLONE_VFORK | CLONE_FILES, &m);

	if (pid < 0)
		return fail(err, "start the network's process");
	while (waitpid(pid, &status, __WALL) < 0 && errno == EINTR)
		;
	if (WIFSIGNALED(status) || !WIFEXITED(status))
		return cay_fail(err, CAY_E_ENGINE, 0, "the network's process died");
	return WEXITSTATUS(status) == 0 ? 0 : -1;
}

int network_enter(struct island *i, struct cay_error *err)
{
	struct message m = {0};
	_cleanup_(fd_closep) int net = -1;
	size_t n_fds = 0;
	ssize_t n;

	if (i->network != NETWORK_SENT)
		return i->network == NETWORK_MADE ? network_make(NULL, err) : 0;
	n = msg_recv(i->control, &m, sizeof(m), &net, 1, &n_fds);
	if (n != (ssize_t)sizeof(m) || m.kind != MESSAGE_NETWORK || n_fds != 1)
		return cay_fail(err, CAY_E_ENGINE, 0, "the launcher sent no network");
	return setns(net, CLONE_NEWNET) < 0 ? fail(err, "enter the network namespace") : 0;
}
