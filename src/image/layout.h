/*
 * layout.h: images in a directory: what `docker save` writes (manifest.json), or an OCI layout
 * (index.json and blobs by digest). It is a stranger's: files are opened below it and nowhere else,
 * and what a digest names must have it.
 */
#pragma once

#include "core/error.h"
#include "image/parts.h"
#include "image/platform.h"

/* Calls fn for each image in it, with names, which may be none, as they are written there. */
typedef int layout_fn(void *ctx, const struct image_parts *parts, const struct strv *names,
		      struct cay_error *err);
int layout_each(int dir_fd, const struct platform *platform, layout_fn *fn, void *ctx,
		struct cay_error *err);

/* For the kinds of layouts. A regular file: an fd, or -1. */
int layout_open(int dir_fd, const char *path, uint64_t *ret_size, struct cay_error *err);
int layout_read(int dir_fd, const char *path, struct buf *ret, struct cay_error *err);

/* blobs/sha256/DIGEST, whole and with that digest. */
int layout_read_blob(int dir_fd, const char *digest, struct buf *ret, struct cay_error *err);

/* The layers of the configuration, opened: path_of(ctx, i) says where. */
int layout_parts(int dir_fd, struct image_parts *parts, size_t n_layers,
		 const char *(*path_of)(void *ctx, size_t i), void *ctx, struct cay_error *err);
void layout_parts_done(struct image_parts *parts);

int layout_oci(int dir_fd, const struct platform *platform, layout_fn *fn, void *ctx,
	       struct cay_error *err);
