#include "base/confine.h"

#include "base/attr.h"
#include "base/fd.h"
#include "base/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define FS_READ (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define FS_STATE                                                                 \
	(FS_READ | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_MAKE_REG | \
	 LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE |          \
	 LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_FS_REFER | LANDLOCK_FS_TRUNCATE)
#define FS_ALL                                                                  \
	(FS_STATE | LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_MAKE_SOCK | \
	 LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_SYM |           \
	 LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_BLOCK | LANDLOCK_FS_IOCTL_DEV)
/* What a rule on a file may have. */
#define FS_FILE \
	(LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_FS_TRUNCATE)

static const uint64_t rights_of[] = {
	[CONFINE_READ] = FS_READ,
	[CONFINE_FILE] = FS_FILE,
	[CONFINE_STATE] = FS_STATE,
	[CONFINE_TREE] = FS_STATE | LANDLOCK_ACCESS_FS_MAKE_SYM | LANDLOCK_ACCESS_FS_MAKE_FIFO,
};

int confine_secrets(void)
{
	const struct rlimit none = {0};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || setrlimit(RLIMIT_CORE, &none) < 0 ||
	    (!CONFINE_SANITIZED && prctl(PR_SET_DUMPABLE, 0) < 0))
		return -errno;
	return 0;
}

int confine_files_begin(bool connect, struct confine_files *ret, int *ret_abi)
{
	struct landlock_rights rights = {
		.fs = FS_ALL,
		.net = LANDLOCK_NET_BIND | (connect ? 0 : LANDLOCK_NET_CONNECT),
		.scoped = LANDLOCK_SCOPES,
	};

	ret->fd = -1;
	*ret_abi = landlock_abi();
	if (*ret_abi <= 0)
		return *ret_abi;
	ret->fd = landlock_create(*ret_abi, &rights);
	ret->known = rights.fs;
	return ret->fd < 0 ? ret->fd : 0;
}

int confine_files_allow_fd(const struct confine_files *f, int fd, enum confine_right right)
{
	struct landlock_path_beneath_attr rule = {.parent_fd = fd};
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	rule.allowed_access = rights_of[right] & f->known & (S_ISDIR(st.st_mode) ? ~0ull : FS_FILE);
	return sys_landlock_add_path(f->fd, &rule) < 0 ? -errno : 0;
}

int confine_files_allow(const struct confine_files *f, const char *path, enum confine_right right)
{
	_cleanup_(fd_closep) int fd = open(path, O_PATH | O_CLOEXEC);

	return fd < 0 ? 0 : confine_files_allow_fd(f, fd, right);
}

int confine_files_allow_names(const struct confine_files *f)
{
	static const char *const readable[] = {
		"/etc/resolv.conf",
		"/etc/hosts",
		"/etc/nsswitch.conf",
		"/etc/gai.conf",
		"/etc/host.conf",
		"/etc/services",
		"/etc/localtime",
		"/run/systemd/resolve",
		"/run/resolvconf",
		"/run/NetworkManager",
		"/usr/lib",
		"/usr/lib64",
		"/lib",
		"/lib64",
		"/usr/share/zoneinfo",
		"/dev/urandom",
	};
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_LEN(readable); i++)
		r = confine_files_allow(f, readable[i], CONFINE_READ);
	return r;
}

int confine_files_end(struct confine_files *f, int r)
{
	if (r == 0 && sys_landlock_restrict(f->fd) < 0)
		r = -errno;
	fd_closep(&f->fd);
	return r;
}

int confine_calls(void *filter, uint32_t action, const char *const *names, size_t n)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < n; i++) {
		int nr = seccomp_syscall_resolve_name(names[i]);

		/* One that this architecture has not: libseccomp leaves it out. */
		r = nr == __NR_SCMP_ERROR ? -EINVAL : seccomp_rule_add(filter, action, nr, 0);
	}
	return r;
}

/* What those that find leaks do at the end. */
static const char *const allowed_if_sanitized[] = {
	"arch_prctl",
	"clone",
	"clone3",
	"dup",
	"fcntl",
	"getdents",
	"getdents64",
	"getppid",
	"getrlimit",
	"kill",
	"openat",
	"pipe",
	"prctl",
	"prlimit64",
	"process_vm_readv",
	"ptrace",
	"readlink",
	"readlinkat",
	"rseq",
	"sched_getaffinity",
	"sched_yield",
	"set_robust_list",
	"sigaltstack",
	"tgkill",
	"wait4",
};

int confine_to_calls(const char *const *const *lists, int (*more)(void *filter))
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(EPERM));
	int r = filter ? 0 : -ENOMEM;

	for (; r == 0 && *lists; lists++) {
		size_t n = 0;

		while ((*lists)[n])
			n++;
		r = confine_calls(filter, SCMP_ACT_ALLOW, *lists, n);
	}
	if (r == 0 && CONFINE_SANITIZED)
		r = confine_calls(filter, SCMP_ACT_ALLOW, allowed_if_sanitized,
				  ARRAY_LEN(allowed_if_sanitized));
	if (r == 0 && more)
		r = more(filter);
	if (r == 0)
		r = seccomp_load(filter);
	seccomp_release(filter);
	return r;
}

int confine_to_sockets(void *filter)
{
	static const unsigned families[] = {AF_INET, AF_INET6}, types[] = {SOCK_STREAM, SOCK_DGRAM};
	int r = 0;

	for (size_t f = 0; f < ARRAY_LEN(families); f++)
		for (size_t t = 0; r == 0 && t < ARRAY_LEN(types); t++)
			r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(socket), 2,
					     SCMP_A0_32(SCMP_CMP_EQ, families[f]),
					     SCMP_A1_32(SCMP_CMP_MASKED_EQ, 0xf, types[t]));
	return r;
}

/* abort() is a signal to itself; to others none goes, nor by way of an fd (F_SETOWN, F_SETSIG). */
int confine_to_own_signals(void *filter)
{
	static const unsigned commands[] = {F_GETFD, F_SETFD,         F_GETFL,
					    F_SETFL, F_DUPFD_CLOEXEC, F_SETPIPE_SZ};
	int r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(tgkill), 1,
				 SCMP_A0_32(SCMP_CMP_EQ, (unsigned)getpid()));

	for (size_t n = 0; r == 0 && n < ARRAY_LEN(commands); n++)
		r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(fcntl), 1,
				     SCMP_A1_32(SCMP_CMP_EQ, commands[n]));
	return r;
}
