/*
 * cp.h: `cay cp`: one file after the other, into a sandbox and out of it. Only regular files
 * and directories travel; the rest is counted, and said at the end.
 */
#pragma once

#include "base/buf.h"
#include "cli/remote.h"

#include <stdbool.h>
#include <stdint.h>

#define CP_PATH_MAX ((size_t)16 << 10)

struct cp {
	struct remote *remote;
	const char *sandbox;
	size_t files, left_out;
	uint64_t bytes;
	uint64_t taken; /* out of the sandbox, in all files together */
	bool shown;     /* there is a terminal to show progress on, and a line is there */
	bool quiet;
	uint64_t shown_ns; /* when */
	const char *name;  /* what is under way */
};

/* The progress line: as often as it helps. */
void cp_progress(void *ctx, size_t bytes);

/* What a path in the sandbox is. 0, 1: nothing is there, or -1. *ret is the caller's. */
int cp_stat(struct cp *c, const char *path, struct json **ret, struct cay_error *err);
bool cp_is_dir(const struct json *entry);

/* "…/files<what>?path=PATH" */
int cp_path(const struct cp *c, const char *what, const char *path, struct buf *ret,
	    struct cay_error *err);

/* from is ours, to the sandbox's; and the other way round. */
int cp_up(struct cp *c, const char *from, const char *to, struct cay_error *err);
int cp_down(struct cp *c, const char *from, const char *to, struct cay_error *err);

/* The last name of a path, into text; "" where it has none ("/", "a/."). */
void cp_name(const char *path, char *text, size_t size);
