/* What a process that downloads can't do any more once it has confined itself, and still can. */
#include "base/confine.h"
#include "base/landlock.h"
#include "image/fetch.h"
#include "confined_support.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define FILE_BYTES (1u << 20)

static int confine(void)
{
	struct cay_error err;
	int abi = landlock_abi();

	MUST(fetch_confine(FILE_BYTES, &err) == 0);
	return abi;
}

static void try_files(void)
{
	int mine = memfd_create("x", MFD_CLOEXEC), abi;

	MUST(mine >= 0 && open("/etc/passwd", O_RDONLY) >= 0);
	abi = confine();
	/* What it was handed it can write to. */
	MUST(write(mine, "x", 1) == 1 && ftruncate(mine, 0) == 0);
	MUST(open("/etc/hosts", O_RDONLY) >= 0);
	MUST(open("/etc/ssl", O_RDONLY | O_DIRECTORY) >= 0);
	DENIED(mkdir("/tmp/test-fetch-new", 0700), EPERM);
	DENIED(unlink("/tmp/test-fetch-new"), EPERM);
	DENIED(rename("/tmp/test-fetch-new", "/tmp/test-fetch-newer"), EPERM);
	if (abi == 0)
		return;
	DENIED(open("/etc/passwd", O_RDONLY), EACCES);
	DENIED(open("/root", O_RDONLY), EACCES);
	DENIED(open("/etc/hosts", O_RDWR), EACCES);
	DENIED(open("/tmp/test-fetch-new", O_RDWR | O_CREAT, 0600), EACCES);
}

static void try_sizes(void)
{
	int mine = memfd_create("x", MFD_CLOEXEC);

	MUST(mine >= 0 && ftruncate(mine, FILE_BYTES + 1) == 0 && ftruncate(mine, 0) == 0);
	MUST(signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
	(void)confine();
	MUST(ftruncate(mine, FILE_BYTES) == 0);
	DENIED(ftruncate(mine, FILE_BYTES + 1), EFBIG);
	MUST(lseek(mine, FILE_BYTES, SEEK_SET) == FILE_BYTES);
	DENIED(write(mine, "x", 1), EFBIG);
	MUST(malloc(64u << 20));
	if (CONFINE_SANITIZED)
		return;
	DENIED(setrlimit(RLIMIT_FSIZE, &(struct rlimit){1, 1}), EPERM);
	DENIED((intptr_t)mmap(NULL, 1u << 30, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0),
	       ENOMEM);
}

static void try_sockets(void)
{
	const struct sockaddr_in here = {.sin_family = AF_INET,
					 .sin_addr = {htonl(INADDR_LOOPBACK)}};
	int tcp;

	(void)confine();
	tcp = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	MUST(tcp >= 0 && socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0) >= 0);
	MUST(connect(tcp, (const struct sockaddr *)&here, sizeof(here)) == 0 || errno != EPERM);
	DENIED(bind(tcp, (const struct sockaddr *)&here, sizeof(here)), EPERM);
	DENIED(listen(tcp, 1), EPERM);
	DENIED(socket(AF_UNIX, SOCK_STREAM, 0), EPERM);
	DENIED(socket(AF_NETLINK, SOCK_RAW, 0), EPERM);
	DENIED(socket(AF_INET, SOCK_RAW, IPPROTO_RAW), EPERM);
}

static void *look_up(void *ret)
{
	struct addrinfo *found = NULL;

	*(int *)ret = getaddrinfo("localhost", "80", NULL, &found);
	if (found)
		freeaddrinfo(found);
	return NULL;
}

/* As libcurl does it. */
static void try_names(void)
{
	pthread_t thread;
	int r = -1;

	(void)confine();
	MUST(pthread_create(&thread, NULL, look_up, &r) == 0);
	MUST(pthread_join(thread, NULL) == 0 && r == 0);
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
	if (CONFINE_SANITIZED)
		return;
	DENIED(syscall(SYS_clone3, NULL, 0), ENOSYS);
	DENIED(kill(1, 0), EPERM);
	DENIED(syscall(SYS_tgkill, other, other, 0), EPERM);
	DENIED(fcntl(0, F_SETOWN, getpid()), EPERM);
	DENIED(fork(), EPERM);
}

#define IN_CHILD(name)                 \
	static void name(void **state) \
	{                              \
		(void)state;           \
		in_child(try_##name);  \
	}

IN_CHILD(files)
IN_CHILD(sizes)
IN_CHILD(sockets)
IN_CHILD(names)
IN_CHILD(calls)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(files), cmocka_unit_test(sizes), cmocka_unit_test(sockets),
		cmocka_unit_test(names), cmocka_unit_test(calls),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
