/*
 * inflate.h: a layer's bytes as they came become a tar: gzip, zstd, or as it is, which the bytes
 * say themselves. Both digests are made here, in a process that understands no tar, so that what
 * a tar could do to the one that does leads to no tree under another one's digest.
 */
#pragma once

#include "image/parts.h"

#include "core/error.h"

struct inflated {
	char digest[IMAGE_ID_SIZE];  /* of what was read */
	char diff_id[IMAGE_ID_SIZE]; /* of what was written */
};

/* layer.size bytes of layer.fd to out. Broken off because nobody reads it: EPIPE. */
int inflate_layer(const struct image_layer *layer, int out, int tell, struct inflated *ret,
		  struct cay_error *err);
