/*
 * self.h: what a process that is about to become a program asks the kernel about itself, and does
 * to itself, whichever engine it is of. System calls alone: it may be between fork and exec.
 */
#pragma once

#include "core/result.h"

#include <stdint.h>

/*
 * What root of an island has, over its own files and processes, so that packages can be
 * installed. Nothing that reaches beyond.
 */
#define CAP_BIT(cap) (1ull << (cap))
#define ROOT_CAPS                                                                              \
	(CAP_BIT(CAP_CHOWN) | CAP_BIT(CAP_DAC_OVERRIDE) | CAP_BIT(CAP_FOWNER) |                \
	 CAP_BIT(CAP_FSETID) | CAP_BIT(CAP_KILL) | CAP_BIT(CAP_SETGID) | CAP_BIT(CAP_SETUID) | \
	 CAP_BIT(CAP_NET_BIND_SERVICE))

/*
 * No core file, and no core handler: at 1, and at no other value, the kernel does
 * not even start the program that core_pattern names.
 */
#define CORE_LIMIT 1

struct capability_sets {
	uint64_t effective, permitted, inheritable, bounding, ambient;
};

/* 0 or -1 and errno. */
int capabilities_read(struct capability_sets *ret);

/* Inode numbers of this process's namespaces. 0 or -errno. */
int namespaces_read(uint64_t ret[NAMESPACES]);

/* All as a program expects them; what is ignored would stay so. */
void signals_reset(void);

/* execvpe(), but without malloc and with the environment's own PATH. -1 and errno. */
int execute_search(char *const *argv, char *const *env);
