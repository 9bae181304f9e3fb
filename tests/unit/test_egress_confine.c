/* What cay-egress can't do any more once it has confined itself, and what it still can. */
#include "base/confine.h"
#include "base/landlock.h"
#include "egress/confine.h"
#include "confined_support.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* Of the kernel's Landlock: afterwards it can't even be asked for. */
static int confine(void)
{
	struct cay_error err;
	int before = landlock_abi(), abi = -1;

	MUST(confine_egress(&abi, &err) == 0);
	MUST(abi == before);
	return abi;
}

static void try_files(void)
{
	int abi;

	MUST(open("/etc/passwd", O_RDONLY) >= 0);
	abi = confine();
	MUST(open("/etc/hosts", O_RDONLY) >= 0);
	DENIED(mkdir("/tmp/cay-test-new", 0700), EPERM);
	DENIED(unlink("/tmp/cay-test-new"), EPERM);
	if (abi == 0)
		return;
	DENIED(open("/etc/passwd", O_RDONLY), EACCES);
	DENIED(open("/etc/hosts", O_RDWR), EACCES);
#ifndef __SANITIZE_ADDRESS__ /* which finds leaks by it */
	DENIED(open("/proc/self/status", O_RDONLY), EACCES);
#endif
	DENIED(open("/tmp/cay-test-new", O_RDWR | O_CREAT, 0600), EACCES);
}

static void try_sockets(void)
{
	const struct sockaddr_in here = {.sin_family = AF_INET,
					 .sin_addr = {htonl(INADDR_LOOPBACK)}};
	int tcp, pair[2];

	(void)confine();
	tcp = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	MUST(tcp >= 0 && socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0) >= 0);
	MUST(connect(tcp, (const struct sockaddr *)&here, sizeof(here)) == 0 || errno != EPERM);
	DENIED(bind(tcp, (const struct sockaddr *)&here, sizeof(here)), EPERM);
	DENIED(listen(tcp, 1), EPERM);
	DENIED(socket(AF_UNIX, SOCK_STREAM, 0), EPERM);
	DENIED(socket(AF_NETLINK, SOCK_RAW, 0), EPERM);
	DENIED(socket(AF_NETLINK, SOCK_DGRAM, 0), EPERM);
	DENIED(socket(AF_PACKET, SOCK_DGRAM, 0), EPERM);
	DENIED(socket(AF_INET, SOCK_RAW, IPPROTO_RAW), EPERM);
	DENIED(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), EPERM);
}

static void try_calls(void)
{
	pid_t other = getppid();

	(void)confine();
	DENIED(execl("/usr/bin/true", "true", (char *)NULL), EPERM);
	DENIED(unshare(CLONE_NEWUSER), EPERM);
	DENIED(setns(0, 0), EPERM);
	DENIED(setuid(getuid()), EPERM);
	DENIED(syscall(SYS_bpf, 0, NULL, 0), EPERM);
	DENIED(syscall(SYS_io_uring_setup, 1, NULL), EPERM);
	DENIED(syscall(SYS_memfd_create, "x", 0), EPERM);
	if (CONFINE_SANITIZED)
		return;
	DENIED(kill(1, 0), EPERM);
	DENIED(syscall(SYS_tgkill, other, other, 0), EPERM);
	MUST(syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), 0) == 0);
	DENIED(fcntl(0, F_SETOWN, getpid()), EPERM);
	DENIED(fcntl(0, F_SETSIG, SIGKILL), EPERM);
	MUST(fcntl(0, F_GETFL) >= 0);
	DENIED(fork(), EPERM);
}

static void files_out_of_reach(void **state)
{
	(void)state;
	in_child(try_files);
}

static void sockets_out_of_reach(void **state)
{
	(void)state;
	in_child(try_sockets);
}

static void calls_out_of_reach(void **state)
{
	(void)state;
	in_child(try_calls);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(files_out_of_reach),
		cmocka_unit_test(sockets_out_of_reach),
		cmocka_unit_test(calls_out_of_reach),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
