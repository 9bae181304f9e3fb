/* What cay-api can't do any more once it has confined itself, and what it still can. */
#include "api/confine.h"
#include "base/attr.h"
#include "base/fd.h"
#include "base/landlock.h"
#include "confined_support.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/keyctl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#ifdef __SANITIZE_ADDRESS__
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

static char dir[] = "/tmp/cay-test-confine-XXXXXX";
static char store[] = "/tmp/images-confine-XXXXXX";
static char outside[] = "/tmp/cay-test-outside-XXXXXX";

static void confine(void)
{
	struct settings s;
	struct cay_error err;
	int state = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC), abi = -1;

	settings_init(&s);
	MUST(state >= 0 && confine_api(&s, state, &abi, &err) == 0);
	settings_done(&s);
	MUST(abi == landlock_abi());
}

static void try_files(void)
{
	char path[128];
	int fd;

	MUST(open("/etc/passwd", O_RDONLY) >= 0 && open(outside, O_RDWR) >= 0);
	confine();
	MUST(open("/usr/bin/env", O_RDONLY) >= 0 && open("/proc/self/statm", O_RDONLY) >= 0);
	(void)snprintf(path, sizeof(path), "%s/file", dir);
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	MUST(fd >= 0 && write(fd, "x", 1) == 1 && ftruncate(fd, 0) == 0 && unlink(path) == 0);
	MUST(memfd_create("x", 0) >= 0 && open("/dev/null", O_RDWR) >= 0);
	if (landlock_abi() == 0)
		return;
	DENIED(open("/etc/passwd", O_RDONLY), EACCES);
	DENIED(open("/proc/1/status", O_RDONLY), EACCES);
	DENIED(open("/etc", O_RDONLY | O_DIRECTORY), EACCES);
	DENIED(open(outside, O_RDWR), EACCES);
	DENIED(open("/tmp/cay-test-new", O_RDWR | O_CREAT, 0600), EACCES);
	DENIED(open("/usr/bin/env", O_RDWR), EACCES);
	DENIED(unlink(outside), EACCES);
}

/* Of the store: which images there are, and no file of one. */
static void try_images(void)
{
	char text[256];
	struct settings s;
	struct cay_error err;
	int state = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC), abi = -1;
	int store_fd = open(store, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	MUST(store_fd >= 0 && openat(store_fd, "roots", O_RDONLY | O_DIRECTORY) >= 0);
	settings_init(&s);
	(void)snprintf(text, sizeof(text), "[images]\nstore = %s\n", store);
	MUST(settings_parse(&s, "F", text, &err) == 0);
	MUST(confine_api(&s, state, &abi, &err) == 0);
	settings_done(&s);
	MUST(openat(store_fd, "names", O_RDONLY | O_DIRECTORY) >= 0);
	MUST(openat(store_fd, "records", O_RDONLY | O_DIRECTORY) >= 0);
	if (landlock_abi() == 0)
		return;
	DENIED(openat(store_fd, "roots", O_RDONLY | O_DIRECTORY), EACCES);
	DENIED(openat(store_fd, ".", O_RDONLY | O_DIRECTORY), EACCES);
	DENIED(openat(store_fd, "names/x", O_RDWR | O_CREAT, 0600), EACCES);
	DENIED(unlinkat(store_fd, "records", AT_REMOVEDIR), EACCES);
}

static void try_calls(void)
{
	const struct sockaddr_un to = {.sun_family = AF_UNIX, .sun_path = "/nowhere"};
	int pair[2], before = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	MUST(before >= 0);
	confine();
	MUST(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1);
	MUST(prctl(PR_GET_SECCOMP, 0, 0, 0, 0) == 2);
	MUST(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0 &&
	     socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
	/* What it listens on it was given, and it has nobody to connect to. */
	DENIED(socket(AF_UNIX, SOCK_STREAM, 0), EPERM);
	DENIED(socket(AF_INET, SOCK_STREAM, 0), EPERM);
	DENIED(socket(AF_INET6, SOCK_DGRAM, 0), EPERM);
	DENIED(socket(AF_NETLINK, SOCK_RAW, 0), EPERM);
	DENIED(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, pair), EPERM);
	DENIED(socketpair(AF_UNIX, SOCK_RAW, 0, pair), EPERM);
	DENIED(connect(before, (const struct sockaddr *)&to, sizeof(to)), EPERM);
	DENIED(bind(before, (const struct sockaddr *)&to, sizeof(to)), EPERM);
	DENIED(listen(before, 1), EPERM);
	DENIED(execl("/usr/bin/true", "true", (char *)NULL), EPERM);
	DENIED(unshare(CLONE_NEWUSER), EPERM);
	DENIED(setns(0, 0), EPERM);
	DENIED(mount("none", dir, "tmpfs", 0, NULL), EPERM);
	DENIED(kill(getppid(), 0), EPERM);
	DENIED(setuid(getuid()), EPERM);
	DENIED(syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_SESSION_KEYRING, 0), EPERM);
	DENIED(syscall(SYS_bpf, 0, NULL, 0), EPERM);
	DENIED(syscall(SYS_userfaultfd, 0), EPERM);
	DENIED(syscall(SYS_io_uring_setup, 1, NULL), EPERM);
	DENIED(syscall(SYS_perf_event_open, NULL, 0, -1, -1, 0), EPERM);
	DENIED(syscall(SYS_process_vm_readv, getppid(), NULL, 0, NULL, 0, 0), EPERM);
	if (SANITIZED)
		return;
	MUST(prctl(PR_GET_DUMPABLE) == 0);
	DENIED(ptrace(PTRACE_TRACEME, 0, NULL, NULL), EPERM);
	DENIED(fork(), EPERM);
}

static void files_out_of_reach(void **state)
{
	(void)state;
	in_child(try_files);
}

static void images_out_of_reach(void **state)
{
	static const char *const parts[] = {"names", "records", "roots", ""};
	char path[128];

	(void)state;
	assert_non_null(mkdtemp(store));
	for (size_t i = 0; *parts[i]; i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", store, parts[i]);
		assert_int_equal(mkdir(path, 0755), 0);
	}
	in_child(try_images);
	for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", store, parts[i]);
		assert_int_equal(rmdir(path), 0);
	}
}

static void calls_out_of_reach(void **state)
{
	(void)state;
	in_child(try_calls);
}

static int set_up(void **state)
{
	int fd = mkdtemp(dir) ? mkstemp(outside) : -1;

	(void)state;
	return fd < 0 ? -1 : close(fd);
}

static int tear_down(void **state)
{
	(void)state;
	return unlink(outside) | rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(files_out_of_reach),
		cmocka_unit_test(images_out_of_reach),
		cmocka_unit_test(calls_out_of_reach),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
