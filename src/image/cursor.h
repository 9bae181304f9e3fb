/*
 * cursor.h: walks to the directories of a tree that strangers named, one name at a time and
 * through no link, and remembers where it is: the next one is mostly near.
 */
#pragma once

#include "image/layer.h"

#include <limits.h>
#include <stddef.h>
#include <time.h>

struct cursor {
	int top;   /* the tree; not the cursor's own */
	bool make; /* directories that are not there, and counts them; times of those it leaves stay
		      as they were */
	uint64_t made;
	size_t depth;
	struct {
		int fd;
		struct timespec mtime;
		char name[NAME_MAX + 1];
	} at[LAYER_DEPTH_MAX];
};

void cursor_init(struct cursor *c, int top, bool make);

/* Leaves all directories, also to forget what it knows. */
void cursor_leave(struct cursor *c);

/*
 * A name of an archive without "." and empty parts, and not absolute; "" is the top. -EINVAL: one
 * of its parts is "..", or too long; -ENAMETOOLONG.
 */
int cursor_plain(const char *raw, char plain[PATH_MAX]);

/* The same, absolute, and on the heap; also -ENOMEM. */
int cursor_absolute(const char *raw, char **ret);

/*
 * path is plain and not "". *ret_dir (the cursor's, until it goes on) has, or is to have,
 * *ret_leaf. -ENOTDIR: what should be a directory is something else; -EINVAL: it is a whiteout; or
 * -errno.
 */
int cursor_go(struct cursor *c, const char *path, int *ret_dir, const char **ret_leaf);
