/*
 * manifest.h: what registries and archives say of images: manifests, indexes of them by platform,
 * and configurations; Docker's (schema 2) and OCI's, which differ by the names of media types. All
 * of it is some stranger's: sizes and counts have limits, digests and media types are checked, and
 * what is not understood is refused. Pure.
 */
#pragma once

#include "base/strv.h"
#include "core/error.h"
#include "image/parts.h"
#include "image/platform.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MANIFEST_ENTRIES_MAX 1024u        /* of an index */
#define MANIFEST_LAYER_MAX   (1ull << 38) /* bytes of a layer, as it comes */
#define MANIFEST_TYPE_SIZE   128

/* What a registry is asked for. */
#define MANIFEST_TYPES                                                \
	"application/vnd.oci.image.index.v1+json, "                   \
	"application/vnd.oci.image.manifest.v1+json, "                \
	"application/vnd.docker.distribution.manifest.list.v2+json, " \
	"application/vnd.docker.distribution.manifest.v2+json"

struct descriptor {
	char type[MANIFEST_TYPE_SIZE]; /* "": not said */
	char digest[IMAGE_ID_SIZE];
	uint64_t size;
};

struct manifest_entry {
	struct descriptor manifest;
	struct platform platform;
};

/* Either an index, which has entries, or an image, which has a configuration. */
struct manifest {
	struct descriptor config;
	struct descriptor *layers; /* lowest first */
	size_t n_layers;
	struct manifest_entry *entries; /* those that are for some platform */
	size_t n_entries;
	bool is_index;
};

/*
 * type: what the registry called it, where the text does not say; may be NULL. CAY_E_UNSUPPORTED:
 * of a kind that is not for us (schema 1, other things than images, layers that are elsewhere);
 * CAY_E_INVALID: of none; CAY_E_TOO_LARGE.
 */
int manifest_parse(const char *text, size_t len, const char *type, struct manifest *ret,
		   struct cay_error *err);
void manifest_done(struct manifest *m);

/* The entry of an index that fits best, the first of equals. CAY_E_IMAGE lists those there are. */
int manifest_choose(const struct manifest *index, const struct platform *wanted,
		    const struct manifest_entry **ret, struct cay_error *err);

/* Of a configuration, what tells which layers go with it. */
struct image_config {
	struct platform platform; /* parts it does not say are "" */
	struct strv diff_ids;     /* lowest first; as hexadecimal digits */
};

int image_config_parse(const char *text, size_t len, struct image_config *ret,
		       struct cay_error *err);
void image_config_done(struct image_config *c);
