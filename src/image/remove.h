/*
 * remove.h: takes things out of the store: their names at once, under the store's lock; what
 * they took on disk after that, when nobody waits for it.
 */
#pragma once

#include "image/staging.h"
#include "spec/image.h"

#include <stdbool.h>
#include <stdint.h>

struct store;

struct removal {
	struct store *store;
	struct staging trash;  /* a removal that is cut short is finished by whoever sweeps */
	struct image **images; /* all there are */
	size_t n_images;
	uint64_t freed_bytes;
};

/* Takes the store's lock. */
int removal_begin(struct removal *r, struct store *s, struct cay_error *err);

/* One name of it. 0 or -errno; not there is fine. */
int removal_name(struct removal *r, const char *name);

/* An image with its names, but not its layers. CAY_E_CONFLICT: islands are made of it. */
int removal_image(struct removal *r, struct image *image, struct cay_error *err);

/* Layers, roots and texts that belong to no image, and that nobody is about to use. */
void removal_unused(struct removal *r);

/* Downloads that nobody is at: all, or those that have lain for long. */
void removal_partials(struct removal *r, bool all);

/* Gives the lock back, and then the room. Also after a removal_begin() that failed. */
void removal_end(struct removal *r);
