/*
 * layer_add.h: a layer gets into the store: store_add_layer(), and the same where the digest of its
 * tar is not known before.
 */
#pragma once

#include "image/inflate.h"
#include "image/store.h"

/* layer.diff_id "": what it turns out to be; ret_diff_id is it in any case. */
int layer_add(struct store *s, const struct image_layer *layer, const struct progress *progress,
	      char ret_diff_id[IMAGE_ID_SIZE], struct cay_error *err);

/* Only into a tree that is there, by confined children; the digests are checked. */
int layer_unpack_into(const struct store *s, const struct image_layer *layer, int tree,
		      const struct progress *progress, struct inflated *ret, struct cay_error *err);
