/*
 * look.h: what a record needs to know of a root: who its user is, and which interpreters it has.
 * Links in an image lead to what they mean there, so the process makes it its own root first, and
 * can't read anything else after; nothing is executed.
 */
#pragma once

#include "core/error.h"
#include "spec/image.h"

/*
 * In a child (child.h). Fills uid, gid, home and runtimes by user and env. A workdir that is not
 * there is made before, for the image's user; one that programs can't enter becomes NULL.
 */
int look_into(int root_fd, struct image *image, struct cay_error *err);
