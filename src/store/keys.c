#include "store/keys.h"

#include "base/attr.h"
#include "policy/bounds.h"
#include "store/db.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COLUMNS                                                                  \
	"id, name, shown, tier, parallel_runs, runs_per_minute, live_sandboxes," \
	" cpu_seconds_per_day, bounds, created, ifnull(revoked, 0), ifnull(last_used, 0)"

#define TOUCH_EVERY_MS 60000

void key_record_done(struct key_record *k)
{
	free(k->bounds);
	k->bounds = NULL;
}

/* The bounds stay SQLite's. */
static void read_row(struct query *q, struct key_record *ret, const char **ret_bounds)
{
	*ret = (struct key_record){0};
	query_copy_text(q, 0, ret->id, sizeof(ret->id));
	query_copy_text(q, 1, ret->name, sizeof(ret->name));
	query_copy_text(q, 2, ret->shown, sizeof(ret->shown));
	query_copy_text(q, 3, ret->tier, sizeof(ret->tier));
	ret->quotas = (struct key_quotas){
		.parallel_runs = query_get_int(q, 4),
		.runs_per_minute = query_get_int(q, 5),
		.live_sandboxes = query_get_int(q, 6),
		.cpu_seconds_per_day = query_get_int(q, 7),
	};
	*ret_bounds = query_get_text(q, 8);
	ret->created_ms = query_get_int(q, 9);
	ret->revoked_ms = query_get_int(q, 10);
	ret->last_used_ms = query_get_int(q, 11);
}

static int take_row(struct query *q, struct key_record *ret, struct cay_error *err)
{
	const char *bounds;

	read_row(q, ret, &bounds);
	ret->bounds = strdup(bounds ? bounds : "{}");
	return ret->bounds ? 0 : cay_fail(err, CAY_E_INTERNAL, ENOMEM, "read a key");
}

/*
 * Revoked must mean revoked, and made must mean made, also when the power fails
 * the moment after: on the disk before the answer. There is no transaction open
 * here, or SQLite would leave it as it was without a word.
 */
static int begin_on_disk(struct store *s, struct cay_error *err)
{
	return db_promise(s, err) < 0 ? -1 : db_exec(s, "PRAGMA synchronous = FULL", err);
}

static int end_on_disk(struct store *s, int r, struct cay_error *err)
{
	struct cay_error ignored;

	if (db_exec(s, "PRAGMA synchronous = NORMAL", r < 0 ? &ignored : err) < 0)
		return -1;
	return r;
}

static int check_record(const struct key_record *k, struct cay_error *err)
{
	if (!k->name[0])
		return cay_fail(err, CAY_E_INVALID, 0, "name: a key needs one");
	if (k->bounds && strlen(k->bounds) > BOUNDS_MAX_BYTES)
		return cay_fail(err, CAY_E_TOO_LARGE, 0, "bounds: more than %u bytes",
				BOUNDS_MAX_BYTES);
	return 0;
}

static int insert(struct store *s, const struct key_record *k, const struct hash *hash,
		  struct cay_error *err)
{
	_cleanup_(query_end) struct query q;
	char conflict[KEY_NAME_MAX + 48];

	if (query_begin(&q, s,
			"INSERT INTO keys (id, name, shown, hash, tier, parallel_runs,"
			" runs_per_minute, live_sandboxes, cpu_seconds_per_day, bounds, created)"
			" VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
			err) < 0)
		return -1;
	query_text(&q, k->id);
	query_text(&q, k->name);
	query_text(&q, k->shown);
	query_blob(&q, hash->bytes, HASH_SIZE);
	query_text(&q, k->tier);
	query_int(&q, k->quotas.parallel_runs);
	query_int(&q, k->quotas.runs_per_minute);
	query_int(&q, k->quotas.live_sandboxes);
	query_int(&q, k->quotas.cpu_seconds_per_day);
	query_text(&q, k->bounds ? k->bounds : "{}");
	query_int(&q, k->created_ms);
	(void)snprintf(conflict, sizeof(conflict), "there is a key called '%s' already", k->name);
	return query_run_unique(&q, conflict, err);
}

int store_key_create(struct store *s, struct key_record *k, char key[KEY_SIZE], int64_t now_ms,
		     struct cay_error *err)
{
	struct hash hash;
	int r;

	if (check_record(k, err) < 0 || key_make(key, err) < 0)
		return -1;
	k->created_ms = now_ms;
	k->revoked_ms = k->last_used_ms = 0;
	key_shown(key, k->shown);
	r = id_make("key", k->id) < 0 ? cay_fail(err, CAY_E_INTERNAL, errno, "name a key")
				      : key_hash(key, &hash, err);
	if (r == 0)
		r = begin_on_disk(s, err);
	if (r == 0)
		r = end_on_disk(s, insert(s, k, &hash, err), err);
	if (r < 0)
		key_wipe(key);
	return r;
}

/*
 * The index is searched by a hash, not by the key: how long that takes tells
 * something of hashes, from which nobody gets to a key. The last word has a
 * comparison that tells nothing at all.
 */
static int find_hash(struct store *s, const struct hash *hash, struct key_record *ret,
		     struct cay_error *err)
{
	_cleanup_(query_end) struct query q;
	struct hash found = {0};
	int r;

	if (query_begin(&q, s,
			"SELECT " COLUMNS ", hash FROM keys WHERE hash = ?1 AND revoked IS NULL",
			err) < 0)
		return -1;
	query_blob(&q, hash->bytes, HASH_SIZE);
	r = query_step(&q, err);
	if (r < 0)
		return -1;
	if (r > 0 && sqlite3_column_bytes(q.handle, 12) == HASH_SIZE)
		memcpy(found.bytes, sqlite3_column_blob(q.handle, 12), HASH_SIZE);
	if (r == 0 || !hash_is(&found, hash))
		return cay_fail(err, CAY_E_UNAUTHORIZED, 0, "the key is not known");
	return take_row(&q, ret, err);
}

int store_key_find(struct store *s, const char *key, struct key_record *ret, struct cay_error *err)
{
	struct hash hash;

	*ret = (struct key_record){0};
	if (!key_ok(key))
		return cay_fail(err, CAY_E_UNAUTHORIZED, 0, "the key is not known");
	return key_hash(key, &hash, err) < 0 ? -1 : find_hash(s, &hash, ret, err);
}

static int not_found(const char *id, struct cay_error *err)
{
	return cay_fail(err, CAY_E_NOT_FOUND, 0, "there is no key %.*s", ID_SIZE, id);
}

int store_key_touch(struct store *s, struct key_record *k, int64_t now_ms, struct cay_error *err)
{
	_cleanup_(query_end) struct query q = {0};

	if (now_ms - k->last_used_ms < TOUCH_EVERY_MS)
		return 0;
	if (db_gather(s, err) < 0 ||
	    query_begin(&q, s, "UPDATE keys SET last_used = ?2 WHERE id = ?1", err) < 0)
		return -1;
	query_text(&q, k->id);
	query_int(&q, now_ms);
	if (query_run(&q, NULL, err) < 0)
		return -1;
	k->last_used_ms = now_ms;
	return 0;
}

static int revoke(struct store *s, const char *id, int64_t now_ms, struct cay_error *err)
{
	_cleanup_(query_end) struct query q;
	int64_t changed;

	if (query_begin(&q, s, "UPDATE keys SET revoked = ?2 WHERE id = ?1 AND revoked IS NULL",
			err) < 0)
		return -1;
	query_text(&q, id);
	query_int(&q, now_ms);
	if (query_run(&q, &changed, err) < 0)
		return -1;
	return changed > 0 ? 0 : not_found(id, err);
}

int store_key_revoke(struct store *s, const char *id, int64_t now_ms, struct cay_error *err)
{
	if (begin_on_disk(s, err) < 0)
		return -1;
	return end_on_disk(s, revoke(s, id, now_ms, err), err);
}

int store_keys_list(struct store *s, bool revoked_too, struct page *page, store_key_fn *fn,
		    void *ctx, struct cay_error *err)
{
	_cleanup_(query_end) struct query q;
	struct page_walk w;
	int r;

	if (query_begin(&q, s,
			"SELECT " COLUMNS " FROM keys WHERE (?1 OR revoked IS NULL)"
			" AND (created, id) < (?2, ?3) ORDER BY created DESC, id DESC LIMIT ?4",
			err) < 0)
		return -1;
	query_int(&q, revoked_too);
	if (page_bind(page, &q, err) < 0)
		return -1;
	page_begin(&w, page);
	while ((r = query_step(&q, err)) > 0) {
		struct key_record k;
		const char *bounds;

		read_row(&q, &k, &bounds);
		if (!page_take(&w, k.created_ms, k.id))
			return 0;
		k.bounds = (char *)(uintptr_t)bounds; /* borrowed, as fn's caller says */
		fn(ctx, &k);
	}
	return r;
}
