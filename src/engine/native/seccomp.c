/*
 * seccomp.c: loads the filter that seccomp-gen made. Runs between fork and exec:
 * one system call, nothing else.
 */
#include "engine/native/seccomp.h"
#include "base/attr.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "seccomp-filter.h"

_Static_assert(ARRAY_LEN(seccomp_filter) <= BPF_MAXINSNS, "the kernel takes no longer filter");

int syscall_filter_load(void)
{
	/* The kernel only reads it; its struct knows no const. */
	const struct sock_fprog prog = {
		.len = ARRAY_LEN(seccomp_filter),
		.filter = (struct sock_filter *)seccomp_filter,
	};

	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog) < 0)
		return -errno;
	return 0;
}

unsigned syscall_filter_length(void)
{
	return ARRAY_LEN(seccomp_filter);
}
