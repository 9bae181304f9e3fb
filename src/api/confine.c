#include "api/confine.h"

#include "base/attr.h"
#include "base/fd.h"
#include "engine/landlock.h"
#include "engine/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <seccomp.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

/* Newer than Debian 12's headers, by their ABI. */
#define FS_REFER     (1ull << 13) /* 2 */
#define FS_TRUNCATE  (1ull << 14) /* 3 */
#define FS_IOCTL_DEV (1ull << 15) /* 5 */
#define NET_BIND     (1ull << 0)  /* 4 */
#define NET_CONNECT  (1ull << 1)
#define SCOPES       (3ull) /* 6: abstract sockets, signals */

#define FS_READ (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define FS_STATE                                                                 \
	(FS_READ | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_MAKE_REG | \
	 LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE |          \
	 LANDLOCK_ACCESS_FS_REMOVE_DIR | FS_REFER | FS_TRUNCATE)
#define FS_ALL                                                                  \
	(FS_STATE | LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_MAKE_SOCK | \
	 LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_SYM |           \
	 LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_BLOCK | FS_IOCTL_DEV)
/* What a rule on a file may have. */
#define FS_FILE (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE | FS_TRUNCATE)

/* landlock_ruleset_attr, as newer kernels have it. */
struct attr {
	uint64_t fs, net, scoped;
};

struct ruleset {
	int fd;
	uint64_t known; /* of the rights to files */
};

/* Where runtimes are, what they are told apart by, and what the libraries look at. */
static const char *const readable[] = {
	"/usr",
	"/lib",
	"/lib64",
	"/bin",
	"/sbin",
	"/etc/ssl",
	"/etc/alternatives",
	"/proc/self",
	"/sys/devices/system/cpu",
	"/dev/urandom",
};

static int allow_fd(const struct ruleset *r, int fd, uint64_t rights)
{
	struct landlock_path_beneath_attr rule = {.parent_fd = fd};
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	rule.allowed_access = rights & r->known & (S_ISDIR(st.st_mode) ? ~0ull : FS_FILE);
	return sys_landlock_add_path(r->fd, &rule) < 0 ? -errno : 0;
}

/* What is not there, or not for us, need not be allowed. */
static int allow(const struct ruleset *r, const char *path, uint64_t rights)
{
	_cleanup_(fd_closep) int fd = open(path, O_PATH | O_CLOEXEC);

	return fd < 0 ? 0 : allow_fd(r, fd, rights);
}

static int allow_all(const struct ruleset *r, const struct settings *s, int state)
{
	int e = allow_fd(r, state, FS_STATE);

	if (e == 0)
		e = allow(r, "/dev/null", FS_FILE);
	for (size_t i = 0; e == 0 && i < ARRAY_LEN(readable); i++)
		e = allow(r, readable[i], FS_READ);
	for (size_t i = 0; i < s->n_languages; i++)
		for (size_t k = 0; e == 0 && k < s->languages[i].paths.len; k++)
			e = allow(r, s->languages[i].paths.items[k], FS_READ);
	return e;
}

static int create(int abi, struct ruleset *ret)
{
	struct attr attr = {.fs = FS_ALL};
	size_t size = sizeof(attr.fs);

	attr.fs &= abi < 2 ? ~FS_REFER : ~0ull;
	attr.fs &= abi < 3 ? ~FS_TRUNCATE : ~0ull;
	attr.fs &= abi < 5 ? ~FS_IOCTL_DEV : ~0ull;
	if (abi >= 4) {
		attr.net = NET_BIND | NET_CONNECT;
		size += sizeof(attr.net);
	}
	if (abi >= 6) {
		attr.scoped = SCOPES;
		size += sizeof(attr.scoped);
	}
	ret->known = attr.fs;
	ret->fd = sys_landlock_create((const void *)&attr, size, 0);
	return ret->fd < 0 ? -errno : 0;
}

static int confine_files(const struct settings *s, int state, int *ret_abi)
{
	_cleanup_(fd_closep) int fd = -1;
	struct ruleset r;
	int e;

	*ret_abi = landlock_abi();
	if (*ret_abi <= 0)
		return *ret_abi;
	e = create(*ret_abi, &r);
	if (e < 0)
		return e;
	fd = r.fd;
	e = allow_all(&r, s, state);
	return e < 0 ? e : sys_landlock_restrict(fd) < 0 ? -errno : 0;
}

/* Leaks are looked for by a process that traces us. */
#ifdef __SANITIZE_ADDRESS__
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

static const char *const denied[] = {
	"acct",
	"add_key",
	"adjtimex",
	"bind",
	"bpf",
	"capset",
	"chroot",
	"clock_adjtime",
	"clock_settime",
	"connect",
	"delete_module",
	"execve",
	"execveat",
	"fanotify_init",
	"finit_module",
	"fsconfig",
	"fsmount",
	"fsopen",
	"init_module",
	"io_uring_enter",
	"io_uring_register",
	"io_uring_setup",
	"ioperm",
	"iopl",
	"kcmp",
	"kexec_file_load",
	"kexec_load",
	"keyctl",
	"kill",
	"listen",
	"lookup_dcookie",
	"mknod",
	"mknodat",
	"modify_ldt",
	"mount",
	"mount_setattr",
	"move_mount",
	"name_to_handle_at",
	"nfsservctl",
	"open_by_handle_at",
	"open_tree",
	"perf_event_open",
	"personality",
	"pidfd_getfd",
	"pidfd_open",
	"pidfd_send_signal",
	"pivot_root",
	"process_vm_readv",
	"process_vm_writev",
	"quotactl",
	"reboot",
	"request_key",
	"setdomainname",
	"setfsgid",
	"setfsuid",
	"setgid",
	"setgroups",
	"sethostname",
	"setns",
	"setregid",
	"setresgid",
	"setresuid",
	"setreuid",
	"settimeofday",
	"setuid",
	"socket",
	"swapoff",
	"swapon",
	"syslog",
	"umount2",
	"unshare",
	"userfaultfd",
	"vhangup",
};

/* No processes, either; but those that find leaks. */
static const char *const denied_unless_sanitized[] = {
	"clone", "clone3", "fork", "ptrace", "vfork",
};

static int deny(scmp_filter_ctx filter, const char *const *names, size_t n)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < n; i++) {
		int nr = seccomp_syscall_resolve_name(names[i]);

		/* One that this architecture has not: libseccomp leaves it out. */
		r = nr == __NR_SCMP_ERROR ? -EINVAL
					  : seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), nr, 0);
	}
	return r;
}

static int deny_arguments(scmp_filter_ctx filter)
{
	static const unsigned requests[] = {TIOCSTI, TIOCLINUX};
	/* One end of such a pair can send to any socket that has a name, without connect(). */
	static const unsigned datagrams[] = {SOCK_DGRAM, SOCK_RAW};
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_LEN(datagrams); i++)
		r = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(socketpair), 1,
				     SCMP_A1_32(SCMP_CMP_MASKED_EQ, 0xf, datagrams[i]));
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(requests); i++)
		r = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(ioctl), 1,
				     SCMP_A1_32(SCMP_CMP_EQ, requests[i]));
	return r;
}

static int confine_calls(void)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
	int r;

	if (!filter)
		return -ENOMEM;
	r = deny(filter, denied, ARRAY_LEN(denied));
	if (r == 0 && !SANITIZED)
		r = deny(filter, denied_unless_sanitized, ARRAY_LEN(denied_unless_sanitized));
	if (r == 0)
		r = deny_arguments(filter);
	if (r == 0)
		r = seccomp_load(filter);
	seccomp_release(filter);
	return r;
}

/* Keys pass through our memory. */
static int keep_secret(void)
{
	const struct rlimit none = {0};

	if (setrlimit(RLIMIT_CORE, &none) < 0 || (!SANITIZED && prctl(PR_SET_DUMPABLE, 0) < 0))
		return -errno;
	return 0;
}

int confine_api(const struct settings *s, int state, int *ret_landlock, struct cay_error *err)
{
	int r = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? -errno : keep_secret();

	if (r < 0)
		return cay_fail(err, CAY_E_INTERNAL, -r, "confine the api");
	r = confine_files(s, state, ret_landlock);
	if (r < 0)
		return cay_fail(err, CAY_E_INTERNAL, -r, "confine the api with Landlock");
	r = confine_calls();
	if (r < 0)
		return cay_fail(err, CAY_E_INTERNAL, -r, "confine the api with seccomp");
	return 0;
}
