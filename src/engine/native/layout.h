/*
 * layout.h: the steps that decide what an island sees.
 */
#pragma once

#include "core/error.h"
#include "policy/plan.h"

#include <stdbool.h>
#include <stdint.h>

struct island;

int layout_trees(struct island *i, struct cay_error *err);
int layout_root(struct island *i, struct cay_error *err);
int layout_mount_points(struct island *i, struct cay_error *err);
int layout_seal(struct island *i, struct cay_error *err);
int layout_devices(struct island *i, struct cay_error *err);
int layout_proc(struct island *i, struct cay_error *err);
int layout_proc_masks(struct island *i, struct cay_error *err);
int layout_scratch(struct island *i, struct cay_error *err);
int layout_sys(struct island *i, struct cay_error *err);
int layout_devpts(struct island *i, struct cay_error *err);
int layout_mounts(struct island *i, struct cay_error *err);
int layout_enter(struct island *i, struct cay_error *err);

/* Where a mount of the plan's goes, and whether that is in the scratch. */
const char *layout_target(const struct plan *p, uint32_t mount);
bool layout_in_scratch(const struct plan *p, uint32_t mount);

/* The island's one writable file system, not attached: an fd or -errno. */
int layout_make_scratch(const struct plan *p);

/* The scratch file system's directories, as the launcher finds them through its fd. */
#define SCRATCH_WORKSPACE "workspace"
#define SCRATCH_TMP       "tmp"
#define SCRATCH_SHM       "shm"
#define SCRATCH_SYS       "sys"
