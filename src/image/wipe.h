/*
 * wipe.h: removes trees of the store's own, which are no deeper than LAYER_DEPTH_MAX. No link is
 * followed. (What programs left may be deeper: engine/tree.h.)
 */
#pragma once

#include <stdint.h>

/* A file or a tree; not there is fine. *freed (may be NULL) grows by what it took on disk. */
int wipe_at(int dir_fd, const char *name, uint64_t *freed);

/* All that is in the directory. 0 or -errno. */
int wipe_inside(int dir_fd, uint64_t *freed);
