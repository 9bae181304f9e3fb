/*
 * landlock.h: a second fence around files, by what the kernel's Landlock can do.
 */
#pragma once

#include <stddef.h>

/* The ABI the kernel has; 0: none; -errno if it does not say. */
int landlock_abi(void);

/*
 * Confines this thread: files may be executed and directories listed below the
 * island's root alone; only below the paths given (NULL-terminated), /proc and
 * /dev may be written; signals and abstract sockets stay inside where the kernel
 * can do that. Returns the ABI in force, 0 if the kernel has none, or -errno.
 */
int landlock_confine(const char *const *writable);
