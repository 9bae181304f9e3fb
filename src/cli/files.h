/*
 * files.h: files into an island and out of it, by directory fds. Paths inside
 * are resolved below the directory they belong to: no "..", no symlink and no
 * race leads out of it. Only regular files and directories travel.
 */
#pragma once

#include "core/error.h"
#include "core/result.h"
#include "engine/engine.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Writes one file at an island path below /workspace or /tmp ("main.py" means
 * /workspace/main.py), making the directories on the way.
 */
int files_write(const struct island_files *f, const char *path, const void *data, size_t len,
		unsigned mode, struct cay_error *err);

/* Whether a path or glob is below /workspace or /tmp, before there is an island. */
int files_check_path(const char *path, struct cay_error *err);

/*
 * Copies a file or a tree of the host in, which the caller opened by the name
 * from. to: NULL for the same name in the workspace.
 */
int files_put(const struct island_files *f, int from_fd, const char *from, const char *to,
	      struct cay_error *err);

/* Copies one that came out to a path below a directory of the caller's; holes stay holes. */
int files_save(int dir_fd, const char *path, int from_fd, size_t size, struct cay_error *err);

/* A file that came out. Return -1 and fill err to stop. */
typedef int files_get_fn(void *ctx, const char *path, int fd, size_t size, struct cay_error *err);

/*
 * Finds the regular files whose path below the workspace (or, for patterns
 * that start with /tmp/, below /tmp) matches the glob; "*" stays within one
 * directory, "**" is any number of them; neither stands for hidden names; a
 * directory's name means all that is in it; and "*" alone, where since_ns is not 0, all that was
 * changed after that (clock_file_now_ns()), wherever it is. Calls
 * fn for each in order of name. *ret_n says how many there were.
 */
int files_get(const struct island_files *f, const char *glob, uint64_t since_ns, files_get_fn *fn,
	      void *ctx, size_t *ret_n, struct cay_error *err);

/* Whether that is what a glob means. */
bool files_glob_is_new(const char *glob);
