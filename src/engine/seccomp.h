/*
 * seccomp.h: the system call filter, made at build time (seccomp-gen.c) out of
 * the table in seccomp-table.h and carried as bytes.
 */
#pragma once

#include <stdbool.h>

/* Loads the filter for this thread; no_new_privs must be set. 0 or -errno. */
int syscall_filter_load(bool may_set_ids);

/* Number of instructions, for those who print facts. */
unsigned syscall_filter_length(void);
