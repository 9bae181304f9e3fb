#include "base/attr.h"
#include "base/confine.h"
#include "base/log.h"
#include "image/fetch.h"

#include <errno.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/resource.h>

#define MEMORY_BYTES (512ull << 20)

/* Certificates, and what OpenSSL is set up by. */
static const char *const readable[] = {
	"/etc/ssl",
	"/usr/lib/ssl",
	"/usr/share/ca-certificates",
	"/usr/local/share/ca-certificates",
	"/etc/pki",
	"/etc/ca-certificates",
};

/* Names are looked up by a thread of libcurl's. */
static const char *const allowed[] = {
	"brk",
	"clock_gettime",
	"clock_nanosleep",
	"close",
	"connect",
	"exit",
	"exit_group",
	"fstat",
	"ftruncate",
	"futex",
	"getdents64",
	"getegid",
	"geteuid",
	"getgid",
	"getpeername",
	"getpid",
	"getrandom",
	"getsockname",
	"getsockopt",
	"gettid",
	"gettimeofday",
	"getuid",
	"lseek",
	"madvise",
	"mmap",
	"mprotect",
	"mremap",
	"munmap",
	"nanosleep",
	"newfstatat",
	"open",
	"openat",
	"pipe2",
	"poll",
	"ppoll",
	"pread64",
	"read",
	"readv",
	"recvfrom",
	"recvmsg",
	"restart_syscall",
	"rseq",
	"rt_sigaction",
	"rt_sigprocmask",
	"rt_sigreturn",
	"sched_getaffinity",
	"sched_yield",
	"sendmmsg",
	"sendmsg",
	"sendto",
	"set_robust_list",
	"setsockopt",
	"shutdown",
	"sigaltstack",
	"socketpair",
	"stat",
	"sysinfo",
	"time",
	"uname",
	"write",
	"writev",
	NULL,
};

/* libc's resolver asks how long an answer is. */
static int allow_lengths(void *filter)
{
	return seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(ioctl), 1,
				SCMP_A1_32(SCMP_CMP_EQ, FIONREAD));
}

/* Threads, and no processes; clone3's flags can't be seen: libc goes on to clone. */
static int allow_threads(void *filter)
{
	int r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1,
				 SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, CLONE_THREAD));

	if (r == 0 && !CONFINE_SANITIZED)
		r = seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
	return r;
}

static int confine_to_files(void)
{
	struct confine_files f;
	int abi, r = confine_files_begin(true, &f, &abi);

	if (r < 0)
		return r;
	if (abi == 0) {
		log_warning("the kernel has no Landlock: downloads are confined without");
		return 0;
	}
	r = confine_files_allow_names(&f);
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(readable); i++)
		r = confine_files_allow(&f, readable[i], CONFINE_READ);
	if (r == 0 && CONFINE_SANITIZED)
		r = confine_files_allow(&f, "/proc/self", CONFINE_READ);
	return confine_files_end(&f, r);
}

static int allow_more(void *filter)
{
	int r = confine_to_sockets(filter);

	if (r == 0)
		r = allow_threads(filter);
	if (r == 0)
		r = allow_lengths(filter);
	return r < 0 || CONFINE_SANITIZED ? r : confine_to_own_signals(filter);
}

static int set_limits(uint64_t file_bytes)
{
	const struct rlimit memory = {MEMORY_BYTES, MEMORY_BYTES}, file = {file_bytes, file_bytes};

	if (setrlimit(RLIMIT_FSIZE, &file) < 0)
		return -errno;
	/* A sanitizer reserves terabytes. */
	return !CONFINE_SANITIZED && setrlimit(RLIMIT_AS, &memory) < 0 ? -errno : 0;
}

int fetch_confine(uint64_t file_bytes, struct cay_error *err)
{
	int r = confine_secrets();

	if (r == 0)
		r = set_limits(file_bytes);
	if (r == 0)
		r = confine_to_files();
	if (r == 0)
		r = confine_to_calls((const char *const *const[]){allowed, NULL}, allow_more);
	return r < 0 ? cay_fail(err, CAY_E_INTERNAL, -r, "confine a download") : 0;
}
