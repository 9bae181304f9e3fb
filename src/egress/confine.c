#include "egress/confine.h"

#include "base/attr.h"
#include "base/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <seccomp.h>
#include <sys/socket.h>
#include <unistd.h>

/* How the host resolves names, and what the libraries look at for it. */
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

static const char *const allowed[] = {
	"accept4",         "brk",          "clock_gettime",
	"clock_nanosleep", "close",        "connect",
	"epoll_create1",   "epoll_ctl",    "epoll_pwait",
	"epoll_wait",      "exit",         "exit_group",
	"fstat",           "futex",        "getpeername",
	"getpid",          "getrandom",    "getsockname",
	"getsockopt",      "gettid",       "gettimeofday",
	"lseek",           "madvise",      "mmap",
	"mprotect",        "mremap",       "munmap",
	"newfstatat",      "open",         "openat",
	"pipe2",           "pread64",      "read",
	"readv",           "recvfrom",     "recvmsg",
	"restart_syscall", "rt_sigaction", "rt_sigprocmask",
	"rt_sigreturn",    "sendmsg",      "sendto",
	"setsockopt",      "shutdown",     "sigaltstack",
	"splice",          "stat",         "time",
	"uname",           "write",        "writev",
};

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
	"tgkill",
	"wait4",
};

/* Sockets of TCP and UDP, which are all that it makes. */
static int allow_sockets(scmp_filter_ctx filter)
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
static int allow_no_signals(scmp_filter_ctx filter)
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

static int confine_to_files(int *ret_abi)
{
	struct confine_files f;
	int r = confine_files_begin(true, &f, ret_abi);

	if (r < 0 || *ret_abi == 0)
		return r;
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(readable); i++)
		r = confine_files_allow(&f, readable[i], CONFINE_READ);
	if (r == 0 && CONFINE_SANITIZED)
		r = confine_files_allow(&f, "/proc/self", CONFINE_READ);
	return confine_files_end(&f, r);
}

static int confine_to_calls(void)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(EPERM));
	int r;

	if (!filter)
		return -ENOMEM;
	r = confine_calls(filter, SCMP_ACT_ALLOW, allowed, ARRAY_LEN(allowed));
	if (r == 0 && CONFINE_SANITIZED)
		r = confine_calls(filter, SCMP_ACT_ALLOW, allowed_if_sanitized,
				  ARRAY_LEN(allowed_if_sanitized));
	if (r == 0)
		r = allow_sockets(filter);
	if (r == 0 && !CONFINE_SANITIZED)
		r = allow_no_signals(filter);
	if (r == 0)
		r = seccomp_load(filter);
	seccomp_release(filter);
	return r;
}

int confine_egress(int *ret_landlock, struct cay_error *err)
{
	int r = confine_secrets();

	if (r == 0)
		r = confine_to_files(ret_landlock);
	if (r == 0)
		r = confine_to_calls();
	return r < 0 ? cay_fail(err, CAY_E_INTERNAL, -r, "confine cay-egress") : 0;
}
