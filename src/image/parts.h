/*
 * parts.h: an image as a source (a registry, an archive, a directory) hands it to the store.
 */
#pragma once

#include "base/buf.h"
#include "spec/image.h"

#include <stddef.h>
#include <stdint.h>

#define IMAGE_CONFIG_MAX   (4u << 20)
#define IMAGE_MANIFEST_MAX (4u << 20)
#define IMAGE_LAYERS_MAX   512

/* To the end of what fd has. */
#define IMAGE_SIZE_UNKNOWN UINT64_MAX

struct image_layer {
	char digest[IMAGE_ID_SIZE];  /* of the bytes as they come; "" not known (docker save) */
	char diff_id[IMAGE_ID_SIZE]; /* of the tar */
	int fd;                      /* the bytes, from offset; a pipe has offset 0 */
	uint64_t offset, size;
};

/* The layers' fds are whoever's who opened them. */
struct image_parts {
	struct buf config;
	char manifest[IMAGE_ID_SIZE]; /* "": there is none */
	struct buf manifest_bytes;
	struct image_layer *layers; /* lowest first */
	size_t n_layers;
};
