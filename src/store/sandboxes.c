#include "store/sandboxes.h"

#include "base/attr.h"
#include "store/db.h"

#include <stdio.h>
#include <string.h>

#define COLUMNS                                                                         \
	"id, owner, name, spec, labels, state, reason, persistent, created, last_used," \
	" ifnull(expires, 0), idle_timeout, ifnull(ended, 0), workspace"

static const char *const states[SANDBOX_STATES] = {
	[SANDBOX_LIVE] = "live", [SANDBOX_PAUSED] = "paused", [SANDBOX_STOPPED] = "stopped",
	[SANDBOX_LOST] = "lost", [SANDBOX_GONE] = "gone",
};

const char *sandbox_state_name(enum sandbox_state state)
{
	return states[state];
}

bool sandbox_is_alive(enum sandbox_state state)
{
	return state <= SANDBOX_STOPPED;
}

static enum sandbox_state state_find(const char *name)
{
	for (int i = 0; name && i < SANDBOX_STATES; i++)
		if (strcmp(states[i], name) == 0)
			return (enum sandbox_state)i;
	return SANDBOX_GONE;
}

static int read_row(struct query *q, struct sandbox_record *ret, struct cay_error *err)
{
	const char *owner = query_get_text(q, 1);

	*ret = (struct sandbox_record){
		.name = query_get_text(q, 2),
		.spec = query_get_text(q, 3),
		.labels = query_get_text(q, 4),
		.state = state_find(query_get_text(q, 5)),
		.reason = query_get_text(q, 6),
		.persistent = query_get_int(q, 7) != 0,
		.created_ms = query_get_int(q, 8),
		.last_used_ms = query_get_int(q, 9),
		.expires_ms = query_get_int(q, 10),
		.idle_timeout_ms = query_get_int(q, 11),
		.ended_ms = query_get_int(q, 12),
		.workspace = query_get_text(q, 13),
	};
	query_copy_text(q, 0, ret->id, sizeof(ret->id));
	if (!owner || owner_parse(owner, &ret->owner) < 0)
		return db_fail(q->store, SQLITE_CORRUPT, err);
	return 0;
}

int store_sandbox_put(struct store *s, const struct sandbox_record *r, struct cay_error *err)
{
	_cleanup_(query_end) struct query q = {0};
	char owner[OWNER_SIZE], conflict[160];

	if (db_promise(s, err) < 0 ||
	    query_begin(
		    &q, s,
		    "INSERT INTO sandboxes VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11,"
		    " ?12, ?13, ?14, ?15) ON CONFLICT (id) DO UPDATE SET"
		    " name = excluded.name, spec = excluded.spec, labels = excluded.labels,"
		    " state = excluded.state, alive = excluded.alive, reason = excluded.reason,"
		    " persistent = excluded.persistent, last_used = excluded.last_used,"
		    " expires = excluded.expires, idle_timeout = excluded.idle_timeout,"
		    " ended = excluded.ended, workspace = excluded.workspace",
		    err) < 0)
		return -1;
	query_text(&q, r->id);
	query_owner(&q, &r->owner, owner);
	query_text(&q, r->name);
	query_text(&q, r->spec ? r->spec : "{}");
	query_text(&q, r->labels ? r->labels : "{}");
	query_text(&q, states[r->state]);
	query_int(&q, sandbox_is_alive(r->state));
	query_text(&q, r->reason);
	query_int(&q, r->persistent);
	query_int(&q, r->created_ms);
	query_int(&q, r->last_used_ms);
	query_time(&q, r->expires_ms);
	query_int(&q, r->idle_timeout_ms);
	query_time(&q, r->ended_ms);
	query_text(&q, r->workspace);
	(void)snprintf(conflict, sizeof(conflict), "there is a sandbox called '%.64s' already",
		       r->name ? r->name : r->id);
	return query_run_unique(&q, conflict, err);
}

int store_sandbox_set_state(struct store *s, const char *id, enum sandbox_state state,
			    const char *reason, int64_t now_ms, struct cay_error *err)
{
	_cleanup_(query_end) struct query q = {0};

	if (db_promise(s, err) < 0 ||
	    query_begin(&q, s,
			"UPDATE sandboxes SET state = ?2, alive = ?3, reason = ?4, ended = ?5"
			" WHERE id = ?1 AND alive = 1",
			err) < 0)
		return -1;
	query_text(&q, id);
	query_text(&q, states[state]);
	query_int(&q, sandbox_is_alive(state));
	query_text(&q, reason);
	query_time(&q, sandbox_is_alive(state) ? 0 : now_ms);
	return query_run(&q, NULL, err);
}

int store_sandbox_touch(struct store *s, const char *id, int64_t now_ms, struct cay_error *err)
{
	_cleanup_(query_end) struct query q = {0};

	if (db_gather(s, err) < 0 ||
	    query_begin(&q, s, "UPDATE sandboxes SET last_used = ?2 WHERE id = ?1", err) < 0)
		return -1;
	query_text(&q, id);
	query_int(&q, now_ms);
	return query_run(&q, NULL, err);
}

int store_sandbox_get(struct store *s, const struct viewer *v, const char *id_or_name,
		      store_sandbox_fn *fn, void *ctx, struct cay_error *err)
{
	_cleanup_(query_end) struct query q;
	struct sandbox_record record;
	char owner[OWNER_SIZE];
	int r;

	if (query_begin(&q, s,
			"SELECT " COLUMNS " FROM sandboxes WHERE (id = ?1 AND (?2 OR owner = ?3))"
			" UNION ALL SELECT " COLUMNS
			" FROM sandboxes WHERE owner = ?3 AND name = ?1 AND alive = 1 LIMIT 1",
			err) < 0)
		return -1;
	query_text(&q, id_or_name);
	query_int(&q, v->all);
	query_owner(&q, &v->owner, owner);
	r = query_step(&q, err);
	if (r == 0)
		return cay_fail(err, CAY_E_NOT_FOUND, 0, "there is no sandbox %.64s", id_or_name);
	if (r < 0 || read_row(&q, &record, err) < 0)
		return -1;
	fn(ctx, &record);
	return 0;
}

static int list(struct query *q, struct page *page, store_sandbox_fn *fn, void *ctx,
		struct cay_error *err)
{
	struct page_walk w;
	int r;

	page_begin(&w, page);
	while ((r = query_step(q, err)) > 0) {
		struct sandbox_record record;

		if (read_row(q, &record, err) < 0)
			return -1;
		if (!page_take(&w, record.created_ms, record.id))
			return 0;
		fn(ctx, &record);
	}
	return r;
}

#define LIST(whose)                                           \
	"SELECT " COLUMNS " FROM sandboxes WHERE " whose      \
	" AND (?2 OR alive = 1) AND (created, id) < (?3, ?4)" \
	" ORDER BY created DESC, id DESC LIMIT ?5"

int store_sandboxes_list(struct store *s, const struct viewer *v, bool ended_too, struct page *page,
			 store_sandbox_fn *fn, void *ctx, struct cay_error *err)
{
	_cleanup_(query_end) struct query q;
	char owner[OWNER_SIZE];

	if (query_begin(&q, s, v->all ? LIST("?1 IS NULL") : LIST("owner = ?1"), err) < 0)
		return -1;
	query_text(&q, v->all ? NULL : owner_text(&v->owner, owner));
	query_int(&q, ended_too);
	return page_bind(page, &q, err) < 0 ? -1 : list(&q, page, fn, ctx, err);
}
