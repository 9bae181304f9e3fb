#include "egress/confine.h"

#include "base/confine.h"

#include <stddef.h>

static const char *const allowed[] = {
	"accept4",
	"brk",
	"clock_gettime",
	"clock_nanosleep",
	"close",
	"connect",
	"epoll_create1",
	"epoll_ctl",
	"epoll_pwait",
	"epoll_wait",
	"exit",
	"exit_group",
	"fstat",
	"futex",
	"getpeername",
	"getpid",
	"getrandom",
	"getsockname",
	"getsockopt",
	"gettid",
	"gettimeofday",
	"lseek",
	"madvise",
	"mmap",
	"mprotect",
	"mremap",
	"munmap",
	"newfstatat",
	"open",
	"openat",
	"pipe2",
	"pread64",
	"read",
	"readv",
	"recvfrom",
	"recvmsg",
	"restart_syscall",
	"rt_sigaction",
	"rt_sigprocmask",
	"rt_sigreturn",
	"sendmsg",
	"sendto",
	"setsockopt",
	"shutdown",
	"sigaltstack",
	"splice",
	"stat",
	"time",
	"uname",
	"write",
	"writev",
	NULL,
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

static int allow_more(void *filter)
{
	int r = confine_to_sockets(filter);

	return r < 0 || CONFINE_SANITIZED ? r : confine_to_own_signals(filter);
}

int confine_egress(int *ret_landlock, struct cay_error *err)
{
	int r = confine_secrets();

	if (r == 0)
		r = confine_to_files(ret_landlock);
	if (r == 0)
		r = confine_to_calls((const char *const *const[]){allowed, NULL}, allow_more);
	return r < 0 ? cay_fail(err, CAY_E_INTERNAL, -r, "confine cay-egress") : 0;
}
