/*
 * record.h: an image as the store keeps it and as callers are shown it: struct image as JSON.
 * One table says the names of both directions.
 */
#pragma once

#include "core/error.h"
#include "spec/image.h"

#include <stdbool.h>
#include <stddef.h>

#define RECORD_MAX_BYTES (4u << 20)
#define IMAGE_ID_MAX     65535u /* of users and groups: what an image can own files by */

struct json;

/* The caller frees *ret. 0, or -ENOMEM. */
int record_json(const struct image *image, struct json **ret);

/*
 * CAY_E_INTERNAL for what is no record. What was read can be relied on: digests are digests,
 * paths are absolute and without "..", versions are versions. *ret is the caller's to
 * image_done(), also after a failure.
 */
int record_parse(const char *text, size_t len, struct image *ret, struct cay_error *err);

/* Whether it is a SHA-256 in small hexadecimal digits. */
bool image_id_ok(const char *text);

void image_done(struct image *image);
void image_free(struct image *image);
void image_freep(struct image **image);
