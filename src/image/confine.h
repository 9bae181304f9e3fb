/*
 * confine.h: what a child (child.h) can still call and open. Only in programs that link libseccomp.
 */
#pragma once

#include "base/confine.h"
#include "image/child.h"

/* Without Landlock in the kernel it goes on without; all else must hold. 0 or -errno. */
int confine_child(const struct child_job *job);

/* From here on nothing is opened but for reading, and that only below this directory. 0 or -errno.
 */
int confine_to_reading(int tree_fd);
