/*
 * merge.h: layers become a root: real directories, and in them hard links to the layers' files, so
 * that it takes little room of its own.
 */
#pragma once

#include "core/error.h"
#include "image/layer.h"

#include <stddef.h>

/*
 * layers: trees as layer.h makes them, lowest first. root_fd: an empty directory. limits are for
 * what is made and not linked: *ret_bytes of it, with directories that an upper layer took away.
 */
int merge_layers(const int *layers, size_t n, int root_fd, const struct layer_limits *limits,
		 uint64_t *ret_bytes, struct cay_error *err);
