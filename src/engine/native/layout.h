/*
 * layout.h: the steps that decide what an island sees.
 */
#pragma once

#include "core/error.h"

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

/* The scratch file system's directories, as the launcher finds them through its fd. */
#define SCRATCH_WORKSPACE "workspace"
#define SCRATCH_TMP       "tmp"
#define SCRATCH_SHM       "shm"
#define SCRATCH_SYS       "sys"
