/*
 * overlay.h: a workspace that is a layer over a host directory (overlayfs, mounted with the
 * rights of the island's own user namespace). The directory is read-only below; all changes
 * are in the scratch, and count to its limit:
 *
 *   scratch/overlay/lower    the host directory, as it is now
 *                   upper    what was changed: whiteouts are character devices 0/0, opaque
 *                            directories have OVERLAY_OPAQUE
 *                   work     overlayfs's own
 *                   merged   what the island has at /workspace
 *
 * The scratch is attached below /tmp, where user code can't reach it. What shows what was
 * changed: agent_changes.c.
 */
#pragma once

#include "core/error.h"

struct island;

#define SCRATCH_OVERLAY "overlay"
#define OVERLAY_LOWER   "lower"
#define OVERLAY_UPPER   "upper"
#define OVERLAY_WORK    "work"
#define OVERLAY_MERGED  "merged"

#define OVERLAY_OPAQUE "user.overlay.opaque"

/* In the child: lays it over *tree, which becomes the mount for the workspace, not attached. */
int overlay_lay(struct island *i, int *tree, struct cay_error *err);
