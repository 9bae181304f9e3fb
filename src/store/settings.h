/*
 * settings.h: what operators said at run time, version by version; the latest is in force. Each is
 * a whole text (settings/live.h), so going back is one more version.
 */
#pragma once

#include "core/error.h"
#include "store/owner.h"
#include "store/store.h"

#include <stdint.h>

#define SETTINGS_VERSIONS_MAX 1000 /* the oldest are forgotten */

/* Strings are borrowed. */
struct settings_version {
	int64_t version; /* from 1 on, never twice; 0: there is none, and text is "" */
	int64_t time_ms;
	struct owner actor;
	int64_t restored; /* the version that it is like; 0: none */
	const char *text;
	const char *before; /* the text of the one before it */
};

/*
 * Keeps one more, if the latest is `expected`, or that is negative: else CAY_E_CONFLICT. It is
 * committed, and its number is in *ret_version.
 */
int store_settings_put(struct store *s, const struct settings_version *v, int64_t expected,
		       int64_t *ret_version, struct cay_error *err);

typedef void store_settings_fn(void *ctx, const struct settings_version *v);

/* version 0: the latest, which may be 0, too. CAY_E_NOT_FOUND for others. */
int store_settings_get(struct store *s, int64_t version, store_settings_fn *fn, void *ctx,
		       struct cay_error *err);

/* Latest first. */
int store_settings_list(struct store *s, struct page *page, store_settings_fn *fn, void *ctx,
			struct cay_error *err);
