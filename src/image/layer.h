/*
 * layer.h: a tar, as layers are, becomes a tree. The tar is a stranger's: nothing in it reaches
 * out of the tree, and what is not wanted is refused with an error that names it.
 *
 * In a layer's tree whiteouts are plain empty files, as in the tar; beside those it has some of our
 * own, under names that a tar can't bring: what has LAYER_RESERVED in front is passed over there.
 */
#pragma once

#include "core/error.h"

#include <stdbool.h>
#include <stdint.h>

#define LAYER_DEPTH_MAX   256
#define LAYER_ENTRIES_MAX (2u << 20)
#define LAYER_XATTR_MAX   65536 /* of one value */
#define LAYER_LINKS_MAX   16000 /* names of one file: a merge copies what has all it can have */

#define LAYER_WHITEOUT ".wh."         /* NAME behind it is not in this layer, nor in those below */
#define LAYER_RESERVED ".wh..wh."     /* and no names that end so */
#define LAYER_OPAQUE   ".wh..wh..opq" /* of the directory it is in, all that lower layers have */
#define LAYER_IMPLIED  ".wh..wh..implied" /* the tar has no entry for this directory */
#define LAYER_FACTS    ".wh..wh..facts"   /* on top: struct layer_count, as text */

/* A file or directory counts with whole blocks of this size. */
#define LAYER_BLOCK 4096ull

#define LAYER_ROOM_HINT                                                            \
	"cay image prune makes room; [images] budget in the settings is the most " \
	"that images may take"

struct layer_limits {
	uint64_t bytes, entries;
	bool one_id; /* no owners, and modes that let the one there is in */
};

struct layer_count {
	uint64_t bytes, entries;
	uint64_t left_out; /* device nodes */
};

/* tar_fd: a tar, not compressed, read to its end. tree_fd: an empty directory. */
int layer_unpack(int tar_fd, int tree_fd, const struct layer_limits *limits,
		 struct layer_count *ret, struct cay_error *err);

/* "the layer has WHAT", and what can be done about it. Returns -1. */
int layer_too_large(struct cay_error *err, const char *what);

/* Of a layer's tree that is there (used.c). 0 or -errno. */
int layer_count_read(int tree_fd, struct layer_count *ret);
