/*
 * apply.h: changes of an overlay, brought back to a host directory with the caller's own
 * rights.
 *
 * What came of hostile code has no say in where it lands: each path is looked up below the
 * directory without a link on the way (openat2), files and links get their names by rename,
 * there are no set-id bits, no devices, and no links that lead out of the directory. What
 * changed on the host after the sandbox began is a conflict: it is told, and stays, unless
 * forced.
 */
#pragma once

#include "cli/changes.h"
#include "core/error.h"
#include "settings/settings.h"

/* The bytes of a changed file, to a new one. An error counts for that file alone. */
typedef int apply_fetch_fn(void *ctx, const char *path, int to_fd, struct cay_error *err);

struct apply {
	int top; /* the directory; the caller's */
	int64_t since_ms;
	bool force;
	apply_fetch_fn *fetch;
	void *ctx;
	bool (*stop)(void *ctx);    /* NULL; or whether to do no more */
	size_t applied, same, left; /* left: as they were */
};

/* The directory, if it may be written to: by the caller, and by the operator's settings. */
int apply_open(const char *path, const struct settings *settings, int *ret_fd,
	       struct cay_error *err);

/* Those that are chosen. What stays as it was is said, and counted. */
void apply_changes(struct apply *a, const struct changes *c);

/* For files that are here: what is at path below top, by no link, to a new file. */
int apply_copy(int top, const char *path, int to_fd, struct cay_error *err);

/* What is there to say at the end. -1: something was left. */
int apply_conclude(const struct apply *a, struct cay_error *err);
