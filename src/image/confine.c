#include "image/confine.h"

#include "base/attr.h"

#include <errno.h>
#include <seccomp.h>
#include <sys/stat.h>

static const char *const basic[] = {
	"brk",          "clock_gettime",  "close",        "exit",      "exit_group",
	"fstat",        "futex",          "getpid",       "getrandom", "gettid",
	"lseek",        "madvise",        "mmap",         "mprotect",  "mremap",
	"munmap",       "pread64",        "read",         "readv",     "restart_syscall",
	"rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "write",     "writev",
};

/* Trees; no descriptor of a file outside can be had, so none is listed by what it may be called on.
 */
static const char *const trees[] = {
	"access",
	"copy_file_range",
	"faccessat",
	"faccessat2",
	"fchmod",
	"fchown",
	"fchownat",
	"fcntl",
	"fsetxattr",
	"ftruncate",
	"getcwd",
	"getdents64",
	"landlock_add_rule",
	"landlock_create_ruleset",
	"landlock_restrict_self",
	"linkat",
	"lstat",
	"mkdirat",
	"newfstatat",
	"open",
	"openat",
	"readlink",
	"readlinkat",
	"renameat2",
	"stat",
	"statx",
	"symlinkat",
	"uname",
	"unlinkat",
	"utimensat",
};

static const char *const merging[] = {"chdir", "chroot", "fchdir"};

/* What those that find leaks do at the end. */
static const char *const allowed_if_sanitized[] = {
	"arch_prctl",
	"clone",
	"clone3",
	"dup",
	"fcntl",
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

/* Of nodes only FIFOs. */
static int allow_fifos(scmp_filter_ctx filter)
{
	return seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(mknodat), 1,
				SCMP_A2_32(SCMP_CMP_MASKED_EQ, S_IFMT, S_IFIFO));
}

static int confine_to_calls(enum child_kind kind)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(EPERM));
	int r;

	if (!filter)
		return -ENOMEM;
	r = confine_calls(filter, SCMP_ACT_ALLOW, basic, ARRAY_LEN(basic));
	if (r == 0 && kind != CHILD_READER)
		r = confine_calls(filter, SCMP_ACT_ALLOW, trees, ARRAY_LEN(trees));
	if (r == 0 && kind != CHILD_READER)
		r = allow_fifos(filter);
	if (r == 0 && kind == CHILD_MERGER)
		r = confine_calls(filter, SCMP_ACT_ALLOW, merging, ARRAY_LEN(merging));
	if (r == 0 && CONFINE_SANITIZED)
		r = confine_calls(filter, SCMP_ACT_ALLOW, allowed_if_sanitized,
				  ARRAY_LEN(allowed_if_sanitized));
	if (r == 0)
		r = seccomp_load(filter);
	seccomp_release(filter);
	return r;
}

static int confine_to_trees(const struct child_job *job)
{
	struct confine_files f;
	int abi, r = confine_files_begin(false, &f, &abi);

	if (r < 0 || abi == 0)
		return r;
	/* The first Landlock forbids all links from one directory to another. */
	if (abi == 1 && job->kind == CHILD_MERGER)
		return 0;
	for (size_t i = 0; r == 0 && i < job->n_trees; i++)
		r = confine_files_allow_fd(&f, job->trees[i], CONFINE_TREE);
	if (r == 0 && CONFINE_SANITIZED)
		r = confine_files_allow(&f, "/proc/self", CONFINE_READ);
	return confine_files_end(&f, r);
}

int confine_child(const struct child_job *job)
{
	int r = confine_secrets();

	if (r == 0)
		r = confine_to_trees(job);
	return r < 0 ? r : confine_to_calls(job->kind);
}

int confine_to_reading(int tree_fd)
{
	struct confine_files f;
	int abi, r = confine_files_begin(false, &f, &abi);

	if (r < 0 || abi == 0)
		return r;
	return confine_files_end(&f, confine_files_allow_fd(&f, tree_fd, CONFINE_READ));
}
