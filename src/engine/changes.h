/*
 * changes.h: what the layer over a workspace (overlay.h) has changed: its upper directory,
 * walked, beside the lower one. Both are opened one name at a time, and no link is followed:
 * hostile code made the one, and may share the other with its owner.
 */
#pragma once

#include "core/error.h"
#include "engine/agent_wire.h"

#include <stdint.h>
#include <sys/stat.h>

struct changed {
	const char *path;         /* below the workspace */
	enum agent_change change; /* created, modified or deleted; of a directory, with all in it */
	const struct stat *st;    /* as it is; of what was deleted: as it was */
	const char *target;       /* of a symlink; "" else */
};

/* 0; WALK_STOP (agent_walk.h): enough; or -1. */
typedef int changed_fn(void *ctx, const struct changed *c, struct cay_error *err);

/*
 * Calls fn for each, a directory before what is in it. *ret_skipped: how many could not be
 * looked at. What was opened for writing and is as it was is no change; nor are times.
 */
int changes_find(int lower, int upper, changed_fn *fn, void *ctx, uint32_t *ret_skipped,
		 struct cay_error *err);
