/*
 * finish.h: a merged root becomes one that islands can be made of without writing to it.
 */
#pragma once

#include "core/error.h"

/*
 * What an island mounts something on is a real directory, or the image is refused with an error
 * that names it; what says where the island is, is cay's own; user 1000 has a name.
 */
int finish_root(int root_fd, struct cay_error *err);
