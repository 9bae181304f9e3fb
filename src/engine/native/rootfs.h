/*
 * rootfs.h: lays the host image out on a fresh root, and what roots of all images have in common.
 * Runs where the host's
 * files are still in sight: in an island's child before it pivots, or in a
 * template's.
 */
#pragma once

#include "core/error.h"

#include <stdbool.h>

/*
 * Makes a small tmpfs over base (a directory of the old root), fills it with
 * the image but for its devices, and gives an fd of it that mounts can be
 * placed on. It is still writable: rootfs_seal() ends that.
 */
int rootfs_build(const char *base, int *ret_root_fd, struct cay_error *err);

/* Gives the root of another image a /dev of the island's own, sealed, but for its devices. */
int rootfs_add_dev(int root_fd, struct cay_error *err);

/* The same out of the template that we are in, devices and all. */
int rootfs_take_dev(int root_fd, struct cay_error *err);

/* Makes all that is there, unless writable, read-only; and without set-id programs and devices. */
int rootfs_seal(int root_fd, bool writable, struct cay_error *err);

/* Places the device nodes: after the seal, which would make them useless. */
int rootfs_devices(int root_fd, struct cay_error *err);

/* Makes root_fd the root and the old one vanish. */
int rootfs_enter(int root_fd, struct cay_error *err);
