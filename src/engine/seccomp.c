/*
 * seccomp.c: loads the filter that seccomp-gen made. Runs between fork and exec:
 * one system call, nothing else.
 */
#include "engine/seccomp.h"
#include "base/attr.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "seccomp-filter.h"

_Static_assert(ARRAY_LEN(seccomp_filter) <= BPF_MAXINSNS, "the kernel takes no longer filter");

int syscall_filter_load(bool may_set_ids)
{
	struct sock_filter filter[ARRAY_LEN(seccomp_filter)];
	const struct sock_fprog prog = {.len = ARRAY_LEN(filter), .filter = filter};

	memcpy(filter, seccomp_filter, sizeof(filter));
	/* A test for no bit at all is one that is never met. */
	for (size_t i = 0; i < ARRAY_LEN(seccomp_set_id_tests) && may_set_ids; i++)
		filter[seccomp_set_id_tests[i]].k = 0;
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog) < 0)
		return -errno;
	return 0;
}

unsigned syscall_filter_length(void)
{
	return ARRAY_LEN(seccomp_filter);
}
