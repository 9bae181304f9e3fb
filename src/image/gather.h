/*
 * gather.h: brings the layers that the store has not: several are downloaded at once, and unpacked
 * beside that as soon as each is here. Downloads lie in partial/ until they are unpacked; one that
 * was broken off is gone on with.
 */
#pragma once

#include "core/error.h"
#include "image/bars.h"
#include "image/fetch.h"
#include "image/job.h"
#include "image/manifest.h"
#include "image/store.h"

#include <stdbool.h>

#define GATHER_FETCHERS 3

struct gather_call {
	struct store *store;
	const char *store_dir;
	uint64_t budget_bytes;
	struct fetcher *fetchers; /* GATHER_FETCHERS, of which each was told whom to ask */
	const struct manifest *manifest;
	const struct strv *diff_ids;
	const char *title;
	bool json;
	/* What is done in the store when all layers are there. */
	job_fn *finish;
	void *ctx;
};

/* A signal to stop is an error with an exit code of 128 and its number. */
int gather(const struct gather_call *call, struct cay_error *err);
