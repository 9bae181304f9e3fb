/*
 * mount.h: the new mount API in the few shapes an island needs. A mount is an
 * fd until it is placed. All return an fd or 0, or -errno.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct mount_option {
	const char *key;
	const char *value; /* NULL: a flag */
};

#define MOUNT_OPTIONS_MAX 6

/* A new file system, not attached anywhere. attrs: MOUNT_ATTR_*. */
int mount_new(const char *type, const struct mount_option *options, unsigned attrs);

/* A copy of what is at path, with all mounts below it, not attached anywhere. */
int mount_clone(int dir_fd, const char *path);

/*
 * A copy of one directory of a mount that is attached in our own namespace:
 * before Linux 6.15 others can't be cloned.
 */
int mount_clone_part(int mount_fd, const char *name);

int mount_set_attrs(int mount_fd, uint64_t attrs, bool recursive);

/* Whether there is a directory at target below root, without a symlink on the way. */
bool mount_point_is(int root_fd, const char *target);

/*
 * Puts the mount at target below root. No symlink is followed on the way:
 * whatever an image has there, the mount lands inside it or nowhere.
 */
int mount_place(int mount_fd, int root_fd, const char *target);

/* The same where nothing but our own is on the way, and no look-up needs to be guarded. */
int mount_place_own(int mount_fd, int root_fd, const char *target);

/*
 * Makes the directories of target below root, and target itself as a directory or empty file. No
 * symlink is followed.
 */
int mount_point_make(int root_fd, const char *target, bool directory);
