#include "store/audit.h"

#include "base/attr.h"
#include "store/db.h"

#include <string.h>

static void cut(struct query *q, const char *text)
{
	if (!text)
		text = "";
	q->n_bound++;
	if (sqlite3_bind_text(q->handle, q->n_bound, text, (int)strnlen(text, AUDIT_TEXT_MAX),
			      SQLITE_STATIC) != SQLITE_OK)
		q->rc = SQLITE_NOMEM;
}

int store_audit_add(struct store *s, const struct audit_record *r, struct cay_error *err)
{
	_cleanup_(query_end) struct query q = {0};
	char actor[OWNER_SIZE];

	if (db_gather(s, err) < 0 ||
	    query_begin(&q, s,
			"INSERT INTO audit (time, request_id, actor, peer, method, path, target,"
			" status, code, operation)"
			" VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
			err) < 0)
		return -1;
	query_int(&q, r->time_ms);
	cut(&q, r->request_id);
	query_owner(&q, &r->actor, actor);
	cut(&q, r->peer);
	cut(&q, r->method);
	cut(&q, r->path);
	query_text(&q, r->target);
	query_int(&q, r->status);
	query_text(&q, r->code);
	cut(&q, r->operation);
	return query_run(&q, NULL, err);
}

static int read_row(struct query *q, struct audit_record *ret, struct cay_error *err)
{
	const char *actor = query_get_text(q, 3);

	*ret = (struct audit_record){
		.id = query_get_int(q, 0),
		.time_ms = query_get_int(q, 1),
		.request_id = query_get_text(q, 2),
		.peer = query_get_text(q, 4),
		.method = query_get_text(q, 5),
		.path = query_get_text(q, 6),
		.target = query_get_text(q, 7),
		.status = (int)query_get_int(q, 8),
		.code = query_get_text(q, 9),
		.operation = query_get_text(q, 10),
	};
	if (!actor || owner_parse(actor, &ret->actor) < 0)
		return db_fail(q->store, SQLITE_CORRUPT, err);
	return 0;
}

/* The id alone is the order: a cursor's second half is empty. */
#define LIST(whose)                                                                     \
	"SELECT id, time, request_id, actor, peer, method, path, target, status, code," \
	" operation FROM audit WHERE " whose " AND id < ?2 AND ?3 = ''"                 \
	" AND time >= ?5 AND (?6 = 0 OR time < ?6) AND (?7 IS NULL OR operation = ?7)"  \
	" ORDER BY id DESC LIMIT ?4"

int store_audit_list(struct store *s, const struct viewer *v, const struct audit_filter *f,
		     struct page *page, store_audit_fn *fn, void *ctx, struct cay_error *err)
{
	_cleanup_(query_end) struct query q;
	const char *whose;
	struct page_walk w;
	char actor[OWNER_SIZE];
	int r;

	whose = v->all ? f->actor : owner_text(&v->owner, actor);
	if (query_begin(&q, s, whose ? LIST("actor = ?1") : LIST("?1 IS NULL"), err) < 0)
		return -1;
	query_text(&q, whose);
	if (page_bind(page, &q, err) < 0)
		return -1;
	query_int(&q, f->since_ms);
	query_int(&q, f->until_ms);
	query_text(&q, f->operation);
	page_begin(&w, page);
	while ((r = query_step(&q, err)) > 0) {
		struct audit_record record;

		if (read_row(&q, &record, err) < 0)
			return -1;
		if (!page_take(&w, record.id, ""))
			return 0;
		fn(ctx, &record);
	}
	return r;
}
