#include "store/workspaces.h"

#include "base/attr.h"
#include "store/db.h"

#include <stdio.h>
#include <string.h>

#define COLUMNS "id, owner, name, snapshot_of, size, created, last_used"

static int read_row(struct query *q, struct workspace_record *ret, struct cay_error *err)
{
	const char *owner = query_get_text(q, 1);

	*ret = (struct workspace_record){
		.size = query_get_int(q, 4),
		.created_ms = query_get_int(q, 5),
		.last_used_ms = query_get_int(q, 6),
	};
	query_copy_text(q, 0, ret->id, sizeof(ret->id));
	query_copy_text(q, 2, ret->name, sizeof(ret->name));
	query_copy_text(q, 3, ret->of, sizeof(ret->of));
	return owner && owner_parse(owner, &ret->owner) == 0
		       ? 0
		       : db_fail(q->store, SQLITE_CORRUPT, err);
}

int store_workspace_put(struct store *s, const struct workspace_record *w, struct cay_error *err)
{
	_cleanup_(query_end) struct query q = {0};
	char owner[OWNER_SIZE], conflict[160];

	if (db_promise(s, err) < 0 ||
	    query_begin(&q, s, "INSERT INTO workspaces VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)", err) <
		    0)
		return -1;
	query_text(&q, w->id);
	query_owner(&q, &w->owner, owner);
	query_text(&q, w->name);
	query_text(&q, w->of);
	query_int(&q, w->size);
	query_int(&q, w->created_ms);
	query_int(&q, w->last_used_ms);
	(void)snprintf(conflict, sizeof(conflict), "there is a %s called '%.64s' already",
		       w->of[0] ? "snapshot" : "workspace", w->name);
	return query_run_unique(&q, conflict, err);
}

/* What there is one of. */
static int get_one(struct query *q, const char *what, const char *name,
		   struct workspace_record *ret, struct cay_error *err)
{
	int r = query_step(q, err);

	if (r == 0)
		return cay_fail(err, CAY_E_NOT_FOUND, 0, "there is no %s %.64s", what, name);
	return r < 0 ? -1 : read_row(q, ret, err);
}

int store_workspace_get(struct store *s, const struct viewer *v, const char *id_or_name,
			struct workspace_record *ret, struct cay_error *err)
{
	_cleanup_(query_end) struct query q = {0};
	char owner[OWNER_SIZE];

	if (query_begin(&q, s,
			"SELECT " COLUMNS " FROM workspaces WHERE snapshot_of = '' AND"
			" ((id = ?1 AND (?2 OR owner = ?3)) OR (owner = ?3 AND name = ?1)) LIMIT 1",
			err) < 0)
		return -1;
	query_text(&q, id_or_name);
	query_int(&q, v->all);
	query_owner(&q, &v->owner, owner);
	return get_one(&q, "workspace", id_or_name, ret, err);
}

int store_workspace_snapshot(struct store *s, const struct workspace_record *of, const char *name,
			     struct workspace_record *ret, struct cay_error *err)
{
	_cleanup_(query_end) struct query q = {0};

	if (query_begin(&q, s,
			"SELECT " COLUMNS " FROM workspaces WHERE snapshot_of = ?1 AND name = ?2",
			err) < 0)
		return -1;
	query_text(&q, of->id);
	query_text(&q, name);
	return get_one(&q, "snapshot", name, ret, err);
}

int store_workspace_remove(struct store *s, const char *id, struct cay_error *err)
{
	_cleanup_(query_end) struct query q = {0};

	if (db_promise(s, err) < 0 ||
	    query_begin(&q, s, "DELETE FROM workspaces WHERE id = ?1 OR snapshot_of = ?1", err) < 0)
		return -1;
	query_text(&q, id);
	return query_run(&q, NULL, err);
}

int store_workspace_touch(struct store *s, const char *id, int64_t now_ms, struct cay_error *err)
{
	_cleanup_(query_end) struct query q = {0};

	if (db_gather(s, err) < 0 ||
	    query_begin(&q, s, "UPDATE workspaces SET last_used = ?2 WHERE id = ?1", err) < 0)
		return -1;
	query_text(&q, id);
	query_int(&q, now_ms);
	return query_run(&q, NULL, err);
}

int store_workspaces_list(struct store *s, const struct viewer *v, const char *of,
			  store_workspace_fn *fn, void *ctx, struct cay_error *err)
{
	_cleanup_(query_end) struct query q = {0};
	char owner[OWNER_SIZE];
	int r;

	if (query_begin(&q, s,
			"SELECT " COLUMNS " FROM workspaces WHERE snapshot_of = ?1 AND"
			" (?2 OR owner = ?3) ORDER BY created, id",
			err) < 0)
		return -1;
	query_text(&q, of ? of : "");
	query_int(&q, v->all);
	query_owner(&q, &v->owner, owner);
	while ((r = query_step(&q, err)) > 0) {
		struct workspace_record w;

		if (read_row(&q, &w, err) < 0)
			return -1;
		fn(ctx, &w);
	}
	return r;
}

int store_workspaces_count(struct store *s, const struct owner *o, int64_t *ret_own,
			   int64_t *ret_all, struct cay_error *err)
{
	_cleanup_(query_end) struct query q = {0};
	char owner[OWNER_SIZE];

	if (query_begin(&q, s, "SELECT count(*), ifnull(sum(owner = ?1), 0) FROM workspaces", err) <
	    0)
		return -1;
	query_owner(&q, o, owner);
	if (query_step(&q, err) < 0)
		return -1;
	*ret_all = query_get_int(&q, 0);
	*ret_own = query_get_int(&q, 1);
	return 0;
}
