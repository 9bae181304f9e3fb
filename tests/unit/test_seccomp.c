/*
 * The system call filter: once in a simulator, for every number and for arguments
 * with rubbish in their high halves; once in the kernel, in children.
 */
#include "base/attr.h"
#include "engine/native/seccomp-table.h"
#include "engine/seccomp.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "seccomp-filter.h"

/* Of libseccomp, whose header has a syscall_filter_load of its own. Its arch is the audit one. */
char *seccomp_syscall_resolve_num_arch(uint32_t arch, int nr);

#ifdef __x86_64__
#define ARCH    AUDIT_ARCH_X86_64
#define FOREIGN AUDIT_ARCH_I386
#else
#define ARCH    AUDIT_ARCH_AARCH64
#define FOREIGN AUDIT_ARCH_ARM
#endif

#define OK        SECCOMP_RET_ALLOW
#define FAILS(e)  (SECCOMP_RET_ERRNO | (e))
#define HIGH_BITS 0xffffffff00000000ULL
#define X32_BIT   0x40000000

/*
 * The simulator. It knows what the generator uses and fails on anything else.
 */

struct outcome {
	uint32_t action;
	bool saw_args;
};

static uint32_t load_word(const struct seccomp_data *data, uint32_t offset)
{
	uint32_t word;

	assert_true(offset % 4 == 0 && offset + sizeof(word) <= sizeof(*data));
	memcpy(&word, (const char *)data + offset, sizeof(word));
	return word;
}

static bool test_holds(const struct sock_filter *insn, uint32_t a)
{
	switch (BPF_OP(insn->code)) {
	case BPF_JEQ:
		return a == insn->k;
	case BPF_JGE:
		return a >= insn->k;
	case BPF_JSET:
		return (a & insn->k) != 0;
	default:
		fail_msg("unknown jump 0x%x", insn->code);
		return false;
	}
}

static struct outcome run(const struct seccomp_data *data)
{
	struct outcome out = {0};
	uint32_t a = 0;

	for (size_t pc = 0; pc < ARRAY_LEN(seccomp_filter); pc++) {
		const struct sock_filter *insn = &seccomp_filter[pc];

		switch (insn->code) {
		case BPF_LD | BPF_W | BPF_ABS:
			a = load_word(data, insn->k);
			out.saw_args |= insn->k >= offsetof(struct seccomp_data, args);
			break;
		case BPF_ALU | BPF_AND | BPF_K:
			a &= insn->k;
			break;
		case BPF_RET | BPF_K:
			out.action = insn->k;
			return out;
		default:
			assert_int_equal(BPF_CLASS(insn->code), BPF_JMP);
			pc += test_holds(insn, a) ? insn->jt : insn->jf;
		}
	}
	fail_msg("ran off the end");
	return out;
}

static struct outcome run_nr(uint32_t nr)
{
	const struct seccomp_data data = {.nr = (int)nr, .arch = ARCH};

	return run(&data);
}

/*
 * Every number, against the table
 */

static bool has_name(const char *names, const char *name)
{
	size_t len = strlen(name);

	for (const char *s = names; *(s += strspn(s, " ")); s += strcspn(s, " "))
		if (strcspn(s, " ") == len && memcmp(s, name, len) == 0)
			return true;
	return false;
}

static enum verdict verdict_of_name(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(call_groups); i++)
		if (has_name(call_groups[i].names, name))
			return call_groups[i].verdict;
	return ABSENT;
}

static enum verdict verdict_of_nr(unsigned nr)
{
	enum verdict verdict = ABSENT;

	for (size_t i = 0; i < ARRAY_LEN(newer_calls); i++)
		if (newer_calls[i].nr == nr)
			return verdict_of_name(newer_calls[i].name);

	char *name = seccomp_syscall_resolve_num_arch(ARCH, (int)nr);

	if (name)
		verdict = verdict_of_name(name);
	free(name);
	return verdict;
}

static void every_number_gets_its_verdict(void **state _unused_)
{
	unsigned allowed = 0;
	unsigned checked = 0;

	for (unsigned nr = 0; nr <= 1024; nr++) {
		enum verdict verdict = verdict_of_nr(nr);
		struct outcome out = run_nr(nr);
		uint32_t expected = verdict == ALLOW  ? OK
				    : verdict == DENY ? FAILS(EPERM)
						      : FAILS(ENOSYS);

		if (verdict > DENY) {
			assert_true(out.saw_args);
			checked++;
			continue;
		}
		if (out.action != expected || out.saw_args)
			fail_msg("number %u: 0x%x, not 0x%x", nr, out.action, expected);
		allowed += verdict == ALLOW;
	}
	assert_true(allowed > 200);
	assert_true(checked >= 9);
}

static void no_number_past_the_last_runs(void **state _unused_)
{
	static const uint32_t bases[] = {512, X32_BIT, 0x80000000U, 0xc0000000U, 0xfffffc00U};

	for (size_t i = 0; i < ARRAY_LEN(bases); i++)
		for (uint32_t nr = 0; nr < 1024; nr++)
			assert_int_equal(run_nr(bases[i] + nr).action, FAILS(ENOSYS));
}

static void no_foreign_call_runs(void **state _unused_)
{
	for (uint32_t nr = 0; nr < 1024; nr++) {
		const struct seccomp_data data = {.nr = (int)nr, .arch = FOREIGN};

		assert_int_equal(run(&data).action, SECCOMP_RET_KILL_PROCESS);
	}
}

/*
 * Arguments
 */

struct args_case {
	long nr;
	uint64_t args[4];
	uint32_t action;
};

#define TYPE_FLAGS (SOCK_CLOEXEC | SOCK_NONBLOCK)
#define CREATES    (O_WRONLY | O_CREAT)

static const struct args_case args_cases[] = {
	{SYS_clone, {SIGCHLD}, OK},
	{SYS_clone, {CLONE_VM | CLONE_VFORK | SIGCHLD}, OK},
	{SYS_clone, {CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD}, OK},
	{SYS_clone, {CLONE_NEWNS | SIGCHLD}, FAILS(EPERM)},
	{SYS_clone, {CLONE_NEWCGROUP | SIGCHLD}, FAILS(EPERM)},
	{SYS_clone, {CLONE_NEWUTS | SIGCHLD}, FAILS(EPERM)},
	{SYS_clone, {CLONE_NEWIPC | SIGCHLD}, FAILS(EPERM)},
	{SYS_clone, {CLONE_NEWUSER | SIGCHLD}, FAILS(EPERM)},
	{SYS_clone, {CLONE_NEWPID | SIGCHLD}, FAILS(EPERM)},
	{SYS_clone, {CLONE_NEWNET | SIGCHLD}, FAILS(EPERM)},

	{SYS_socket, {AF_UNIX, SOCK_STREAM | TYPE_FLAGS, 0}, OK},
	{SYS_socket, {AF_UNIX, SOCK_SEQPACKET, 0}, OK},
	{SYS_socket, {AF_INET, SOCK_STREAM | TYPE_FLAGS, 0}, OK},
	{SYS_socket, {AF_INET, SOCK_STREAM, IPPROTO_TCP}, OK},
	{SYS_socket, {AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, IPPROTO_UDP}, OK},
	{SYS_socket, {AF_INET, SOCK_DGRAM, 0}, OK},
	{SYS_socket, {AF_INET, SOCK_RAW, IPPROTO_ICMP}, FAILS(EPERM)},
	{SYS_socket, {AF_INET, SOCK_RAW | TYPE_FLAGS, IPPROTO_RAW}, FAILS(EPERM)},
	{SYS_socket, {AF_INET6, SOCK_RAW, IPPROTO_TCP}, FAILS(EPERM)},
	{SYS_socket, {AF_INET, SOCK_PACKET, 0}, FAILS(EPERM)},
	{SYS_socket, {AF_INET, SOCK_PACKET | TYPE_FLAGS, 0}, FAILS(EPERM)},
	{SYS_socket, {AF_INET, SOCK_STREAM, IPPROTO_SCTP}, FAILS(EPROTONOSUPPORT)},
	{SYS_socket, {AF_INET, SOCK_STREAM, 262 /* MPTCP */}, FAILS(EPROTONOSUPPORT)},
	{SYS_socket, {AF_INET, SOCK_DGRAM, IPPROTO_UDPLITE}, FAILS(EPROTONOSUPPORT)},
	{SYS_socket, {AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE}, OK},
	{SYS_socket, {AF_NETLINK, SOCK_DGRAM, NETLINK_NETFILTER}, FAILS(EPERM)},
	{SYS_socket, {AF_NETLINK, SOCK_RAW, NETLINK_AUDIT}, FAILS(EPROTONOSUPPORT)},
	{SYS_socket, {AF_NETLINK, SOCK_RAW, NETLINK_KOBJECT_UEVENT}, FAILS(EPERM)},
	{SYS_socket, {AF_VSOCK, SOCK_STREAM, 0}, FAILS(EPERM)},
	{SYS_socket, {AF_ALG, SOCK_SEQPACKET, 0}, FAILS(EPERM)},
	{SYS_socket, {AF_PACKET, SOCK_RAW, 0}, FAILS(EPERM)},
	{SYS_socket, {AF_BLUETOOTH, SOCK_RAW, 0}, FAILS(EAFNOSUPPORT)},
	{SYS_socket, {AF_UNSPEC, SOCK_STREAM, 0}, FAILS(EAFNOSUPPORT)},
	{SYS_socket, {0xffffffff, SOCK_STREAM, 0}, FAILS(EAFNOSUPPORT)},
	{SYS_socketpair, {AF_UNIX, SOCK_STREAM, 0}, OK},
	{SYS_socketpair, {AF_TIPC, SOCK_STREAM, 0}, FAILS(EAFNOSUPPORT)},

	{SYS_ioctl, {0, TCGETS}, OK},
	{SYS_ioctl, {0, TIOCGWINSZ}, OK},
	{SYS_ioctl, {0, TIOCSCTTY}, OK},
	{SYS_ioctl, {0, TIOCSTI}, FAILS(EPERM)},
	{SYS_ioctl, {0, TIOCLINUX}, FAILS(EPERM)},
	{SYS_ioctl, {0, TIOCCONS}, FAILS(EPERM)},
	{SYS_ioctl, {0, TIOCSETD}, FAILS(EPERM)},

	{SYS_prctl, {PR_SET_NAME}, OK},
	{SYS_prctl, {PR_SET_SECCOMP, SECCOMP_MODE_STRICT}, OK},
	{SYS_prctl, {PR_SET_SECCOMP, SECCOMP_MODE_FILTER}, FAILS(EINVAL)},
	{SYS_prctl, {1ull << 32 | PR_SET_SECCOMP, SECCOMP_MODE_FILTER}, FAILS(EINVAL)},
	{SYS_seccomp, {SECCOMP_SET_MODE_FILTER}, FAILS(ENOSYS)},

	{SYS_personality, {PER_LINUX}, OK},
	{SYS_personality, {PER_LINUX32}, OK},
	{SYS_personality, {UNAME26}, OK},
	{SYS_personality, {UNAME26 | PER_LINUX32}, OK},
	{SYS_personality, {ADDR_NO_RANDOMIZE}, OK},
	{SYS_personality, {0xffffffff}, OK},
	{SYS_personality, {READ_IMPLIES_EXEC}, FAILS(EPERM)},
	{SYS_personality, {MMAP_PAGE_ZERO | ADDR_NO_RANDOMIZE}, FAILS(EPERM)},
	{SYS_personality, {ADDR_COMPAT_LAYOUT}, FAILS(EPERM)},
	{SYS_personality, {0xfffffffe}, FAILS(EPERM)},

	{SYS_fchmod, {3, 01777}, OK},
	{SYS_fchmod, {3, 04755}, FAILS(EPERM)},
	{SYS_fchmod, {3, 02755}, FAILS(EPERM)},
	{SYS_fchmod, {3, 0xffff0000}, OK}, /* a mode has 16 bits */
	{SYS_fchmodat, {3, 07777, 0755}, OK},
	{SYS_fchmodat, {3, 0, 06755}, FAILS(EPERM)},
	{SYS_openat, {3, 0, O_RDONLY, 0xffffffff}, OK}, /* not read, may be rubbish */
	{SYS_openat, {3, 0, CREATES, 0666}, OK},
	{SYS_openat, {3, 0, CREATES, 04666}, FAILS(EPERM)},
	{SYS_openat, {3, 0, CREATES | O_EXCL, 02666}, FAILS(EPERM)},
	{SYS_openat, {3, 0, O_TMPFILE | O_RDWR, 0600}, OK},
	{SYS_openat, {3, 0, O_TMPFILE | O_RDWR, 04755}, FAILS(EPERM)},
	{SYS_openat, {3, 0, O_DIRECTORY, 04755}, OK},
	{SYS_mkdirat, {3, 0, 01777}, OK},
	{SYS_mkdirat, {3, 0, 02777}, FAILS(EPERM)},
	{SYS_mknodat, {3, 0, 0644, 0x103}, OK},
	{SYS_mknodat, {3, 0, S_IFREG | 0644}, OK},
	{SYS_mknodat, {3, 0, S_IFIFO | 0644}, OK},
	{SYS_mknodat, {3, 0, S_IFSOCK | 0644}, OK},
	{SYS_mknodat, {3, 0, S_IFREG | 04644}, FAILS(EPERM)},
	{SYS_mknodat, {3, 0, S_IFCHR | 0644, 0}, FAILS(EPERM)},
	{SYS_mknodat, {3, 0, S_IFBLK | 0644, 0x800}, FAILS(EPERM)},
	{SYS_mknodat, {3, 0, 0x10000 | S_IFCHR | 0644}, FAILS(EPERM)},
#ifdef __x86_64__
	{SYS_chmod, {0, 0755}, OK},
	{SYS_chmod, {0, 04755}, FAILS(EPERM)},
	{SYS_creat, {0, 0666}, OK},
	{SYS_creat, {0, 04666}, FAILS(EPERM)},
	{SYS_mkdir, {0, 0777}, OK},
	{SYS_mkdir, {0, 02777}, FAILS(EPERM)},
	{SYS_open, {0, O_RDONLY, 06777}, OK},
	{SYS_open, {0, CREATES, 0666, 06777}, OK},
	{SYS_open, {0, CREATES, 02666}, FAILS(EPERM)},
	{SYS_open, {0, O_TMPFILE | O_RDWR, 04666}, FAILS(EPERM)},
	{SYS_mknod, {0, S_IFIFO | 0600, 06777}, OK},
	{SYS_mknod, {0, S_IFIFO | 04600}, FAILS(EPERM)},
	{SYS_mknod, {0, S_IFCHR | 0600}, FAILS(EPERM)},
	{SYS_mknod, {0, S_IFBLK | 0600}, FAILS(EPERM)},
#endif
};

/* The high halves never matter to the kernel: they must not matter to the filter. */
static void arguments_decide(void **state _unused_)
{
	static const uint64_t highs[] = {0, HIGH_BITS, 1ULL << 32, 1ULL << 63};

	for (size_t i = 0; i < ARRAY_LEN(args_cases); i++) {
		const struct args_case *c = &args_cases[i];

		for (size_t h = 0; h < ARRAY_LEN(highs); h++) {
			struct seccomp_data data = {.nr = (int)c->nr, .arch = ARCH};

			for (size_t a = 0; a < ARRAY_LEN(c->args); a++)
				data.args[a] = c->args[a] | highs[h];

			uint32_t action = run(&data).action;

			if (action != c->action)
				fail_msg("case %zu, high bits %zu: 0x%x, not 0x%x", i, h, action,
					 c->action);
		}
	}
}

/* The calls the attacks name are refused by number, whatever the table is made of. */
static void attacks_are_refused(void **state _unused_)
{
	static const long denied[] = {
		SYS_unshare,
		SYS_setns,
		SYS_mount,
		SYS_umount2,
		SYS_move_mount,
		SYS_open_tree,
		SYS_fsopen,
		SYS_fsconfig,
		SYS_fsmount,
		SYS_fspick,
		SYS_mount_setattr,
		SYS_pivot_root,
		SYS_chroot,
		SYS_bpf,
		SYS_perf_event_open,
		SYS_userfaultfd,
		SYS_io_uring_setup,
		SYS_io_uring_enter,
		SYS_keyctl,
		SYS_add_key,
		SYS_request_key,
		SYS_kexec_load,
		SYS_kexec_file_load,
		SYS_init_module,
		SYS_finit_module,
		SYS_delete_module,
		SYS_reboot,
		SYS_swapon,
		SYS_acct,
		SYS_settimeofday,
		SYS_clock_settime,
		SYS_fanotify_init,
		SYS_sethostname,
		SYS_name_to_handle_at,
		SYS_open_by_handle_at,
	};
	static const long absent[] = {SYS_clone3, SYS_openat2, 452 /* fchmodat2 */, 467, 1000};

	for (size_t i = 0; i < ARRAY_LEN(denied); i++)
		assert_int_equal(run_nr((uint32_t)denied[i]).action, FAILS(EPERM));
	for (size_t i = 0; i < ARRAY_LEN(absent); i++)
		assert_int_equal(run_nr((uint32_t)absent[i]).action, FAILS(ENOSYS));
}

/*
 * In the kernel. A probe runs in a child behind the filter and returns 0, or the
 * line at which it was disappointed.
 */

#define EXPECT(what)                     \
	do {                             \
		if (!(what))             \
			return __LINE__; \
	} while (0)
#define EXPECT_ERRNO(call, e)         \
	do {                          \
		errno = 0;            \
		EXPECT((call) == -1); \
		EXPECT(errno == (e)); \
	} while (0)

typedef int probe_fn(void);

struct probe_end {
	int line; /* 0: content; -1: never came back */
	int status;
};

static struct probe_end run_probe(probe_fn *probe, bool filtered)
{
	struct probe_end end = {.line = -1};
	int fds[2];

	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);

	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		int line = -2;

		if (!filtered || (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
				  syscall_filter_load(false) == 0))
			line = probe();
		if (write(fds[1], &line, sizeof(line)) != (ssize_t)sizeof(line))
			_exit(2);
		_exit(0);
	}
	close(fds[1]);
	if (read(fds[0], &end.line, sizeof(end.line)) != (ssize_t)sizeof(end.line))
		end.line = -1;
	close(fds[0]);
	assert_int_equal(waitpid(pid, &end.status, 0), pid);
	return end;
}

static void assert_content(probe_fn *probe)
{
	struct probe_end end = run_probe(probe, true);

	if (end.line != 0)
		fail_msg("failed at line %d, wait status 0x%x", end.line, (unsigned)end.status);
}

static int probe_basics(void)
{
	EXPECT(syscall(SYS_getpid) > 0);
	EXPECT(prctl(PR_GET_SECCOMP, 0, 0, 0, 0) == SECCOMP_MODE_FILTER);
	EXPECT_ERRNO(syscall(1000), ENOSYS);
	EXPECT_ERRNO(syscall(SYS_clone3, NULL, (size_t)0), ENOSYS);
	EXPECT_ERRNO(syscall(SYS_openat2, AT_FDCWD, "/", NULL, (size_t)0), ENOSYS);
	EXPECT_ERRNO(unshare(CLONE_NEWUSER), EPERM);
	EXPECT_ERRNO(syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, NULL, NULL, NULL, NULL), EPERM);
	EXPECT_ERRNO(syscall(SYS_io_uring_setup, 1U, NULL), EPERM);
	EXPECT_ERRNO(syscall(SYS_bpf, 0, NULL, 0U), EPERM);
	return 0;
}

static int probe_sockets(void)
{
	EXPECT_ERRNO(socket(AF_VSOCK, SOCK_STREAM, 0), EPERM);
	EXPECT_ERRNO(socket(AF_ALG, SOCK_SEQPACKET, 0), EPERM);
	EXPECT_ERRNO(socket(AF_PACKET, SOCK_RAW, 0), EPERM);
	EXPECT_ERRNO(socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_ICMP), EPERM);
	EXPECT_ERRNO(socket(AF_INET, SOCK_PACKET, 0), EPERM);
	EXPECT_ERRNO(socket(AF_X25, SOCK_SEQPACKET, 0), EAFNOSUPPORT);
	EXPECT(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0) >= 0);

	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

	EXPECT(fd >= 0);
	EXPECT(setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one)) == 0);
	EXPECT_ERRNO(setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, NULL, 0), EPERM);
	EXPECT_ERRNO(setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, NULL, 0), EPERM);
	EXPECT(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE) >= 0);
	return 0;
}

static char scratch[] = "/tmp/test-seccomp-XXXXXX";

static int probe_modes(void)
{
	struct stat st;

	EXPECT(chdir(scratch) == 0);

	int fd = open("file", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

	EXPECT(fd >= 0);
	EXPECT(chmod("file", 0755) == 0);
	EXPECT_ERRNO(chmod("file", 04755), EPERM);
	EXPECT_ERRNO(fchmod(fd, 02755), EPERM);
	EXPECT_ERRNO(syscall(SYS_fchmodat, AT_FDCWD, "file", 06755), EPERM);
	EXPECT_ERRNO(syscall(SYS_fchmodat, AT_FDCWD, "file", HIGH_BITS | 04755), EPERM);
	EXPECT_ERRNO(syscall(452, AT_FDCWD, "file", 04755, 0), ENOSYS);
	EXPECT_ERRNO(open("suid", O_WRONLY | O_CREAT | O_CLOEXEC, 04755), EPERM);
	EXPECT_ERRNO(open(".", O_WRONLY | O_TMPFILE | O_CLOEXEC, 04755), EPERM);
	EXPECT_ERRNO(mkdir("dir", 02755), EPERM);
	EXPECT_ERRNO(mknod("node", S_IFCHR | 0600, 0), EPERM);
	EXPECT_ERRNO(mknod("node", S_IFREG | 04600, 0), EPERM);
	EXPECT(mkfifo("fifo", 0600) == 0);
	EXPECT(fstat(fd, &st) == 0);
	EXPECT((st.st_mode & 07777) == 0755);
	EXPECT(unlink("file") == 0);
	EXPECT(unlink("fifo") == 0);
	EXPECT_ERRNO(unlink("suid"), ENOENT);
	return 0;
}

/* EBADF shows that the request went through to the kernel, EPERM that it did not. */
static int probe_terminal(void)
{
	char c = 'x';

	EXPECT_ERRNO(syscall(SYS_ioctl, -1, TIOCSTI, &c), EPERM);
	EXPECT_ERRNO(syscall(SYS_ioctl, -1, HIGH_BITS | TIOCSTI, &c), EPERM);
	EXPECT_ERRNO(syscall(SYS_ioctl, -1, HIGH_BITS | TIOCLINUX, &c), EPERM);
	EXPECT_ERRNO(syscall(SYS_ioctl, -1, TIOCGWINSZ, &c), EBADF);
	return 0;
}

static void *thread_main(void *arg)
{
	*(int *)arg = 42;
	return arg;
}

static int probe_threads(void)
{
	pthread_t thread;
	void *ret = NULL;
	int value = 0;

	EXPECT(pthread_create(&thread, NULL, thread_main, &value) == 0);
	EXPECT(pthread_join(thread, &ret) == 0);
	EXPECT(ret == &value && value == 42);
	return 0;
}

static int probe_children(void)
{
	char *argv[] = {(char *)"sh", (char *)"-c", (char *)"exit $(echo 7 | cat)", NULL};
	char *envp[] = {(char *)"PATH=/usr/bin:/bin", NULL};
	int status = 0;
	pid_t pid;

	EXPECT(posix_spawn(&pid, "/bin/sh", NULL, NULL, argv, envp) == 0);
	EXPECT(waitpid(pid, &status, 0) == pid);
	EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 7);
	EXPECT_ERRNO(execve("/nonexistent", argv, envp), ENOENT);
	return 0;
}

static void basics(void **state _unused_)
{
	assert_content(probe_basics);
}

static void sockets(void **state _unused_)
{
	assert_content(probe_sockets);
}

static void modes(void **state _unused_)
{
	assert_content(probe_modes);
}

static void terminal(void **state _unused_)
{
	assert_content(probe_terminal);
}

static void threads(void **state _unused_)
{
	assert_content(probe_threads);
}

static void children(void **state _unused_)
{
	assert_content(probe_children);
}

#ifdef __x86_64__
/* getpid of i386. Some kernels have no int 0x80 at all: then it is a SIGSEGV for anybody. */
static int probe_int80(void)
{
	long ret = 20;

	__asm__ volatile("int $0x80" : "+a"(ret) : : "memory", "r8", "r9", "r10", "r11");
	EXPECT(ret == getpid());
	return 0;
}

static int probe_x32(void)
{
	EXPECT_ERRNO(syscall(X32_BIT | SYS_getpid), ENOSYS);
	EXPECT_ERRNO(syscall(X32_BIT | SYS_unshare, CLONE_NEWUSER), ENOSYS);
	return 0;
}

static void int80_is_fatal(void **state _unused_)
{
	struct probe_end free_end = run_probe(probe_int80, false);
	struct probe_end end = run_probe(probe_int80, true);

	assert_int_equal(end.line, -1);
	assert_true(WIFSIGNALED(end.status));
	if (free_end.line == 0)
		assert_int_equal(WTERMSIG(end.status), SIGSYS);
	else
		assert_int_equal(WTERMSIG(end.status), SIGSEGV);
}

static void x32_is_absent(void **state _unused_)
{
	assert_content(probe_x32);
}
#endif

/* Not as root, who may load any filter without the promise. */
static int load_without_promise(void)
{
	if (geteuid() == 0 && setresuid(65534, 65534, 65534) < 0)
		return __LINE__;
	return syscall_filter_load(false);
}

static void needs_no_new_privs(void **state _unused_)
{
	assert_int_equal(run_probe(load_without_promise, false).line, -EACCES);
}

static void length_is_told(void **state _unused_)
{
	assert_int_equal(syscall_filter_length(), ARRAY_LEN(seccomp_filter));
	assert_true(syscall_filter_length() < 160); /* loading is paid per instruction */
}

static int make_scratch(void **state _unused_)
{
	return mkdtemp(scratch) ? 0 : -1;
}

static int remove_scratch(void **state _unused_)
{
	return rmdir(scratch);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_number_gets_its_verdict),
		cmocka_unit_test(no_number_past_the_last_runs),
		cmocka_unit_test(no_foreign_call_runs),
		cmocka_unit_test(arguments_decide),
		cmocka_unit_test(attacks_are_refused),
		cmocka_unit_test(basics),
		cmocka_unit_test(sockets),
		cmocka_unit_test(modes),
		cmocka_unit_test(terminal),
		cmocka_unit_test(threads),
		cmocka_unit_test(children),
#ifdef __x86_64__
		cmocka_unit_test(int80_is_fatal),
		cmocka_unit_test(x32_is_absent),
#endif
		cmocka_unit_test(needs_no_new_privs),
		cmocka_unit_test(length_is_told),
	};

	return cmocka_run_group_tests_name("seccomp", tests, make_scratch, remove_scratch);
}
