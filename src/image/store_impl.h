/*
 * store_impl.h: what the files of the store share.
 */
#pragma once

#include "image/store.h"

#include <limits.h>

struct store {
	char path[PATH_MAX];
	int dir, lock;
	bool one_id; /* not root, or a root without IMAGE_IDS */
	uint64_t budget_bytes;
	struct held_layer {
		char id[IMAGE_ID_SIZE];
		int fd; /* with a shared flock */
	} * held;
	size_t n_held;
};

#define STORE_FILE_SIZE (IMAGE_ID_SIZE + 32) /* "manifests/HEX.json" and the like */

/* For the short moments in which names come and go. Not for threads: it is one's process's. */
int store_lock(const struct store *s, struct cay_error *err);
void store_unlock(const struct store *s);
void store_unlockp(const struct store **s);

/* A directory of the store; an fd or -errno. */
int store_subdir(const struct store *s, const char *name);

/* flock() that is not interrupted. 0 or -errno. */
int store_flock(int fd, int how);

/* Whether name in dir_fd is still what fd was opened by. */
bool store_is_still(int fd, int dir_fd, const char *name);

typedef void store_each_fn(void *ctx, int dir_fd, const char *name);
int store_each(const struct store *s, const char *subdir, store_each_fn *fn, void *ctx);

/* What the budget leaves, whatever the disk has; UINT64_MAX without one. */
int store_left(const struct store *s, uint64_t *ret_bytes, struct cay_error *err);

/* Small files: whole, or not at all. */
int store_put(const struct store *s, const char *path, const void *data, size_t len,
	      struct cay_error *err);
