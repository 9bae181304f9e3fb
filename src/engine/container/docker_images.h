/*
 * docker_images.h: images that an engine has, and the engine itself.
 */
#pragma once

#include "engine/container/docker.h"

#include <stdbool.h>

/* *ret is the caller's. CAY_E_IMAGE: it is not there. */
int docker_image_inspect(struct docker *d, const char *name, struct json **ret,
			 struct cay_error *err);

/* Whether it is called that: a reference in full, by a digest in it alone. Pure. */
bool docker_image_is(const struct json *inspected, const char *reference);

/* An array; the caller's. */
int docker_image_list(struct docker *d, struct json **ret, struct cay_error *err);

/* How far a pull is: of one layer, by its short id. total 0: not known. Words are the engine's. */
struct docker_pull {
	const char *layer; /* NULL: of it all */
	const char *words;
	uint64_t now_bytes, total_bytes;
};
typedef void docker_pull_fn(void *ctx, const struct docker_pull *p);

/*
 * name has its registry, and a tag or digest: what a short one would mean is the engine's to say.
 * auth: for X-Registry-Auth, base64 of JSON; NULL. fn may be NULL. CAY_E_IMAGE with the engine's
 * words where it can't be had.
 */
int docker_image_pull(struct docker *d, const char *name, const char *auth, docker_pull_fn *fn,
		      void *ctx, struct cay_error *err);

int docker_image_remove(struct docker *d, const char *name, struct cay_error *err);

/* What GET /version and GET /info say; the caller's. */
int docker_version(struct docker *d, struct json **ret, struct cay_error *err);
int docker_info(struct docker *d, struct json **ret, struct cay_error *err);
