/*
 * image.h: what the files of `cay image` share.
 */
#pragma once

#include "core/error.h"
#include "settings/settings.h"

#include <stdbool.h>
#include <stddef.h>

#define IMAGE_WORDS_MAX 65

struct image_ask {
	const char *platform;
	bool all, json;
	const char *words[IMAGE_WORDS_MAX + 1]; /* behind the verb; ends with a NULL */
	struct settings settings;
};

struct json;

/* By the API of the daemon that CAY_HOST names; NULL where it names none. */
struct remote;
int image_remote(struct remote **ret, struct cay_error *err);

/* {"images":[…]}; the caller frees it. */
int image_remote_list(struct remote *r, struct json **ret, struct cay_error *err);
int image_remote_get(struct remote *r, const char *name, struct json **ret, struct cay_error *err);
int image_remote_pull(struct remote *r, const struct image_ask *a, struct cay_error *err);
int image_remote_rm(struct remote *r, const struct image_ask *a, struct cay_error *err);

/* The image as lines of "what: value" on stdout. */
int image_print(const struct json *image, struct cay_error *err);
