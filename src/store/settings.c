#include "store/settings.h"

#include "base/attr.h"
#include "store/db.h"

#define COLUMNS                                                                        \
	"version, time, actor, restored, text, ifnull((SELECT text FROM live_settings" \
	" AS b WHERE b.version < s.version ORDER BY b.version DESC LIMIT 1), '')"

static int read_row(struct query *q, struct settings_version *ret, struct cay_error *err)
{
	const char *actor = query_get_text(q, 2);

	*ret = (struct settings_version){
		.version = query_get_int(q, 0),
		.time_ms = query_get_int(q, 1),
		.restored = query_get_int(q, 3),
		.text = query_get_text(q, 4),
		.before = query_get_text(q, 5),
	};
	if (!actor || owner_parse(actor, &ret->actor) < 0 || !ret->text || !ret->before)
		return db_fail(q->store, SQLITE_CORRUPT, err);
	return 0;
}

static int find_latest(struct store *s, int64_t *ret, struct cay_error *err)
{
	_cleanup_(query_end) struct query q;
	int r = query_begin(&q, s, "SELECT ifnull(max(version), 0) FROM live_settings", err);

	if (r == 0)
		r = query_step(&q, err);
	*ret = r > 0 ? query_get_int(&q, 0) : 0;
	return r < 0 ? -1 : 0;
}

static int insert(struct store *s, const struct settings_version *v, struct cay_error *err)
{
	_cleanup_(query_end) struct query q;
	char actor[OWNER_SIZE];

	if (query_begin(&q, s,
			"INSERT INTO live_settings (time, actor, restored, text)"
			" VALUES (?1, ?2, ?3, ?4)",
			err) < 0)
		return -1;
	query_int(&q, v->time_ms);
	query_owner(&q, &v->actor, actor);
	query_int(&q, v->restored);
	query_text(&q, v->text);
	return query_run(&q, NULL, err);
}

static int forget(struct store *s, int64_t latest, struct cay_error *err)
{
	_cleanup_(query_end) struct query q;

	if (query_begin(&q, s, "DELETE FROM live_settings WHERE version <= ?1", err) < 0)
		return -1;
	query_int(&q, latest - SETTINGS_VERSIONS_MAX);
	return query_run(&q, NULL, err);
}

static int put(struct store *s, const struct settings_version *v, int64_t expected,
	       int64_t *ret_version, struct cay_error *err)
{
	int64_t latest;

	if (find_latest(s, &latest, err) < 0)
		return -1;
	if (expected >= 0 && latest != expected) {
		(void)cay_fail(err, CAY_E_CONFLICT, 0,
			       "the settings are of version %lld, and not %lld any more",
			       (long long)latest, (long long)expected);
		return cay_hint(err, "somebody else has changed them: look at them, and try again");
	}
	if (insert(s, v, err) < 0 || find_latest(s, ret_version, err) < 0)
		return -1;
	return forget(s, *ret_version, err);
}

int store_settings_put(struct store *s, const struct settings_version *v, int64_t expected,
		       int64_t *ret_version, struct cay_error *err)
{
	if (db_begin(s, err) < 0)
		return -1;
	return db_end(s, put(s, v, expected, ret_version, err), err);
}

int store_settings_get(struct store *s, int64_t version, store_settings_fn *fn, void *ctx,
		       struct cay_error *err)
{
	static const struct settings_version none = {.text = "", .before = ""};
	_cleanup_(query_end) struct query q;
	struct settings_version v;
	int r = query_begin(&q, s,
			    "SELECT " COLUMNS " FROM live_settings AS s"
			    " WHERE ?1 = 0 OR version = ?1 ORDER BY version DESC LIMIT 1",
			    err);

	if (r == 0) {
		query_int(&q, version);
		r = query_step(&q, err);
	}
	if (r < 0)
		return -1;
	if (r == 0 && version != 0)
		return cay_fail(err, CAY_E_NOT_FOUND, 0, "there is no version %lld of the settings",
				(long long)version);
	if (r > 0 && read_row(&q, &v, err) < 0)
		return -1;
	fn(ctx, r > 0 ? &v : &none);
	return 0;
}

int store_settings_list(struct store *s, struct page *page, store_settings_fn *fn, void *ctx,
			struct cay_error *err)
{
	_cleanup_(query_end) struct query q;
	struct page_walk w;
	int r;

	/* The version alone is the order: a cursor's second half is empty. */
	if (query_begin(&q, s,
			"SELECT " COLUMNS " FROM live_settings AS s WHERE version < ?1 AND ?2 = ''"
			" ORDER BY version DESC LIMIT ?3",
			err) < 0 ||
	    page_bind(page, &q, err) < 0)
		return -1;
	page_begin(&w, page);
	while ((r = query_step(&q, err)) > 0) {
		struct settings_version v;

		if (read_row(&q, &v, err) < 0)
			return -1;
		if (!page_take(&w, v.version, ""))
			return 0;
		fn(ctx, &v);
	}
	return r;
}
