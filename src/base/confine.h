/*
 * confine.h: what a process of ours that strangers talk to gives up once it has all it needs,
 * so that a hole in it is worth little. Only in programs that link libseccomp. All functions
 * return 0 or -errno.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Leaks are looked for by a process that traces us. */
#ifdef __SANITIZE_ADDRESS__
#define CONFINE_SANITIZED 1
#else
#define CONFINE_SANITIZED 0
#endif

/* No new privileges, no core, and no other process of the user's looks into it. */
int confine_secrets(void);

/* Files, by Landlock: from confine_files_end() on, only what was allowed can be opened. */
struct confine_files {
	int fd;
	uint64_t known;
};

/* CONFINE_TREE: also what a tree has beside files and directories, but for sockets and devices. */
enum confine_right { CONFINE_READ, CONFINE_FILE, CONFINE_STATE, CONFINE_TREE };

/*
 * Ports are not bound either, and only with connect connected to. *ret_abi: its version, or 0
 * where the kernel has none: then nothing else is to be called.
 */
int confine_files_begin(bool connect, struct confine_files *ret, int *ret_abi);
int confine_files_allow_fd(const struct confine_files *f, int fd, enum confine_right right);
/* What is not there, or not for us, need not be allowed. */
int confine_files_allow(const struct confine_files *f, const char *path, enum confine_right right);
/* How the host resolves names, and what libraries look at for it and for themselves. */
int confine_files_allow_names(const struct confine_files *f);
/* r: what came of it before; unless that is 0, it is returned and nothing else done. */
int confine_files_end(struct confine_files *f, int r);

/* Adds a rule to a filter of libseccomp's for each call, by name. */
int confine_calls(void *filter, uint32_t action, const char *const *names, size_t n);

/*
 * Loads a filter: of system calls there are those of the lists, each of names and ended by NULL, as
 * are the lists; what more() adds, which may be NULL; and under sanitizers what those do.
 */
int confine_to_calls(const char *const *const *lists, int (*more)(void *filter));

/* Adds sockets of TCP and UDP, and no others. */
int confine_to_sockets(void *filter);

/* Adds fcntl() and tgkill(), without signals to other processes. */
int confine_to_own_signals(void *filter);
