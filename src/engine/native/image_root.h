/*
 * image_root.h: the root of an island that is made of an image of the store.
 *
 * The launcher opens roots/ID and holds a lock on it as long as the island lives, so that
 * nobody removes it. As root it makes a copy of the mount in which the files' owners, one fixed
 * range on disk, are the island's own ids. The island's child makes that its root: as it is,
 * read-only; or, where the root is writable or lacks the place of a mount, below a layer in the
 * scratch (overlayfs, mounted with the rights of the island's own user namespace).
 *
 * What the tree holds was written by strangers, but laid out by image/: proc, sys, dev, tmp and
 * workspace are directories. That is relied upon for nothing but success: no symlink is
 * followed, and a mount lands in the tree or nowhere.
 */
#pragma once

#include "core/error.h"
#include "engine/native/hostdir.h"
#include "policy/plan.h"

#include <stdint.h>

struct island;

/* Of a launcher that makes many: what shifts owners to a range of ids is good for the next, too. */
#define IMAGE_SHIFTS_MAX 64

struct image_shifts {
	struct {
		uint32_t first_id; /* 0: there is none */
		int by;
	} items[IMAGE_SHIFTS_MAX];
	size_t next; /* to be replaced */
};

void image_shifts_done(struct image_shifts *s);

/*
 * In the launcher. store: image/images.h; what others may change there is not used. first_id: the
 * first host id of the island's range; 0 where it has none.
 */
int image_root_open(const char *store, const struct plan *p, uint32_t first_id,
		    struct image_shifts *shifts, struct hostdir *ret, struct cay_error *err);

/*
 * For an island that waits: it has no say in whether the image may be removed. When it is needed,
 * image_root_hold() tells whether its root is still the image's own; only then may it be used.
 */
void image_root_let_go(const struct hostdir *h);
bool image_root_hold(const char *store, const struct plan *p, const struct hostdir *h);

/* In the child: makes it the mount at base, with a /dev of the island's own. */
int image_root_lay(struct island *i, const char *base, struct cay_error *err);
