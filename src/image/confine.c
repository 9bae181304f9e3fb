#include "image/confine.h"

#include <errno.h>
#include <seccomp.h>
#include <sys/stat.h>

static const char *const basic[] = {
	"brk",          "clock_gettime",  "close",        "exit",      "exit_group",
	"fstat",        "futex",          "getpid",       "getrandom", "gettid",
	"lseek",        "madvise",        "mmap",         "mprotect",  "mremap",
	"munmap",       "pread64",        "read",         "readv",     "restart_syscall",
	"rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "write",     "writev",
	NULL,
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
	NULL,
};

static const char *const merging[] = {"chdir", "chroot", "fchdir", "openat2", NULL};

/* Of nodes only FIFOs; and no fd by which others get signals. */
static int allow_some(void *filter)
{
	int r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(mknodat), 1,
				 SCMP_A2_32(SCMP_CMP_MASKED_EQ, S_IFMT, S_IFIFO));

	return r < 0 ? r : confine_to_own_signals(filter);
}

static int confine_kind(enum child_kind kind)
{
	const char *const *const reader[] = {basic, NULL};
	const char *const *const writer[] = {basic, trees, NULL};
	const char *const *const merger[] = {basic, trees, merging, NULL};

	if (kind == CHILD_READER)
		return confine_to_calls(reader, NULL);
	return confine_to_calls(kind == CHILD_MERGER ? merger : writer, allow_some);
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
	return r < 0 ? r : confine_kind(job->kind);
}

int confine_to_reading(int tree_fd)
{
	struct confine_files f;
	int abi, r = confine_files_begin(false, &f, &abi);

	if (r < 0 || abi == 0)
		return r;
	return confine_files_end(&f, confine_files_allow_fd(&f, tree_fd, CONFINE_READ));
}
