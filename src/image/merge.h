/*
 * merge.h: layers become a root: real directories, and in them hard links to the layers' files, so
 * that it takes no room of its own.
 */
#pragma once

#include "core/error.h"

#include <stdbool.h>
#include <stddef.h>

/* layers: trees as layer.h makes them, lowest first. root_fd: an empty directory. */
int merge_layers(const int *layers, size_t n, int root_fd, bool one_id, struct cay_error *err);
