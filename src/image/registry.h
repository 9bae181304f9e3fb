/*
 * registry.h: asks registries for manifests and blobs of one repository: mirrors first, then the
 * registry itself, each with its own name and password. It goes through challenges, redirects and
 * what passes by waiting; what comes is only as true as its digest, which is the caller's to check.
 */
#pragma once

#include "core/error.h"
#include "image/docker_config.h"
#include "image/ref.h"
#include "image/web.h"

#include <stdbool.h>
#include <stdint.h>

#define REGISTRY_SOURCES_MAX   8 /* mirrors, and the registry itself */
#define REGISTRY_REDIRECTS_MAX 5
#define REGISTRY_TRIES_MAX     4 /* that bring nothing new */
#define REGISTRY_WAIT_MAX_S    60

/* One that is asked: what is said about it before. */
struct source {
	char url[REGISTRY_URL_SIZE]; /* "/v2/…" follows; without "http…://" it is found out */
	bool plain;                  /* without TLS is fine */
	struct login login;
};

/* Where a body goes: a file, from its beginning. */
struct body {
	int fd;
	uint64_t have; /* bytes that are there already, to be gone on from */
	uint64_t size; /* of the whole; or with at_most, not more than that */
	bool at_most;
	void (*more)(void *ctx, uint64_t have); /* called now and then; may be NULL */
	void *ctx;
};

struct registry;

/* Of sources, n are borrowed; the last one is the registry. NULL: no memory. */
struct registry *registry_new(const struct source *sources, size_t n, const char *repository,
			      struct web *web);
void registry_free(struct registry *r);

/*
 * reference: a tag, or sha256:HEX. ret_digest: what the registry calls it, or "". CAY_E_IMAGE:
 * there is none, or it can't be had.
 */
int registry_manifest(struct registry *r, const char *reference, struct body *body,
		      char ret_type[WEB_TYPE_SIZE], char ret_digest[WEB_DIGEST_SIZE],
		      struct cay_error *err);

int registry_blob(struct registry *r, const char *digest, struct body *body, struct cay_error *err);
