/*
 * finish.h: a merged root becomes one that islands can be made of without writing to it.
 */
#pragma once

#include "core/error.h"

#include <stdint.h>

/*
 * What an island mounts something on is a real directory, or the image is refused with an error
 * that names it; what says where the island is, is cay's own; user 1000 has a name.
 * What that takes on disk is added to *bytes.
 */
int finish_root(int root_fd, uint64_t *bytes, struct cay_error *err);
