/*
 * keys.h: the API keys there are. Only operators list, make and revoke them.
 */
#pragma once

#include "core/id.h"
#include "store/key.h"
#include "store/store.h"

#include <stdbool.h>
#include <stdint.h>

#define KEY_NAME_MAX  63
#define KEY_TIER_SIZE 16

/* 0: none of its own. */
struct key_quotas {
	int64_t parallel_runs, runs_per_minute, live_sandboxes, cpu_seconds_per_day;
};

struct key_record {
	char id[ID_SIZE]; /* key_… */
	char name[KEY_NAME_MAX + 1];
	char shown[KEY_SHOWN_SIZE]; /* its beginning */
	char tier[KEY_TIER_SIZE];
	struct key_quotas quotas;
	char *bounds; /* JSON, see policy/bounds.h */
	int64_t created_ms, revoked_ms, last_used_ms;
};

void key_record_done(struct key_record *k);

/*
 * Makes a key with name, tier, quotas and bounds of *k, and fills in the rest.
 * The key itself is only ever in key. CAY_E_CONFLICT: the name is in use.
 */
int store_key_create(struct store *s, struct key_record *k, char key[KEY_SIZE], int64_t now_ms,
		     struct cay_error *err);

/*
 * Whose key this is. CAY_E_UNAUTHORIZED says the same of one that was revoked and
 * of one that never was. The caller has *ret to key_record_done().
 */
int store_key_find(struct store *s, const char *key, struct key_record *ret, struct cay_error *err);

/* Notes that it was used; gathered, and once a minute is enough. */
int store_key_touch(struct store *s, struct key_record *k, int64_t now_ms, struct cay_error *err);

/* From now on nobody has it. CAY_E_NOT_FOUND: nobody had. */
int store_key_revoke(struct store *s, const char *id, int64_t now_ms, struct cay_error *err);

/* Latest first. What fn is given is gone when it returns. */
typedef void store_key_fn(void *ctx, const struct key_record *k);
int store_keys_list(struct store *s, bool revoked_too, struct page *page, store_key_fn *fn,
		    void *ctx, struct cay_error *err);
