/*
 * landlock.h: a second fence around files, by what the kernel's Landlock can do.
 */
#pragma once

/*
 * Confines this thread: files may be executed and directories listed below the
 * island's root alone; only below the paths given (both lists end with NULL), /proc
 * and /dev may be written; sockets may be made in the scratch, but not left in a
 * directory of the host's; signals and abstract sockets stay inside where the kernel
 * can do that. Returns the ABI in force, 0 if the kernel has none, or -errno.
 */
int landlock_confine(const char *const *scratch, const char *const *host_dirs);
