/*
 * landlock.h: the kernel's Landlock, as newer kernels than Debian 12's headers have it.
 */
#pragma once

#include <linux/landlock.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

/* By the ABI that brought them. */
#define LANDLOCK_FS_REFER     (1ull << 13) /* 2 */
#define LANDLOCK_FS_TRUNCATE  (1ull << 14) /* 3 */
#define LANDLOCK_FS_IOCTL_DEV (1ull << 15) /* 5 */
#define LANDLOCK_NET_BIND     (1ull << 0)  /* 4 */
#define LANDLOCK_NET_CONNECT  (1ull << 1)
#define LANDLOCK_SCOPES       (3ull) /* 6: abstract sockets, signals */

struct landlock_rights {
	uint64_t fs, net, scoped;
};

/* The ABI the kernel has; 0: none; -errno if it does not say. */
int landlock_abi(void);

/*
 * A ruleset of those among the rights that this ABI knows, which they are reduced to.
 * An fd, or -errno.
 */
int landlock_create(int abi, struct landlock_rights *rights);

static inline int sys_landlock_add_path(int ruleset, const struct landlock_path_beneath_attr *rule)
{
	return (int)syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, rule, 0);
}

static inline int sys_landlock_restrict(int ruleset)
{
	return (int)syscall(SYS_landlock_restrict_self, ruleset, 0);
}
