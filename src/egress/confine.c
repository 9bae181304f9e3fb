#include "egress/confine.h"

#include "base/attr.h"
#include "base/confine.h"

#include <errno.h>
#include <seccomp.h>

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

static int confine_to_files(int *ret_abi)
{
	struct confine_files f;
	int r = confine_files_begin(true, &f, ret_abi);

	if (r < 0 || *ret_abi == 0)
		return r;
	r = confine_files_allow_names(&f);
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
		r = confine_to_sockets(filter);
	if (r == 0 && !CONFINE_SANITIZED)
		r = confine_to_own_signals(filter);
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
