#include "store/runs.h"

#include "base/attr.h"
#include "store/db.h"

#include <string.h>

/* How many one call drops: more than the largest result can push out of small ones. */
#define TRIM_STEP 4096

#define COLUMNS(result)                                                                \
	"id, owner, sandbox, language, status, exit_code, ifnull(signal, 0), message," \
	" started, ifnull(ended, 0), wall_ms, cpu_ms, memory_peak, background,"        \
	" result_bytes > 0, " result

static enum status status_find(const char *name)
{
	for (int i = 0; i < STATUSES; i++)
		if (strcmp(status_name((enum status)i), name) == 0)
			return (enum status)i;
	return STATUS_SANDBOX_ERROR;
}

static int read_row(struct query *q, struct run_record *ret, struct cay_error *err)
{
	const char *owner = query_get_text(q, 1), *status = query_get_text(q, 4);

	*ret = (struct run_record){
		.sandbox = query_get_text(q, 2),
		.language = query_get_text(q, 3),
		.under_way = !status,
		.status = status ? status_find(status) : STATUS_OK,
		.exited = sqlite3_column_type(q->handle, 5) != SQLITE_NULL,
		.exit_code = (int)query_get_int(q, 5),
		.signal = (int)query_get_int(q, 6),
		.message = query_get_text(q, 7),
		.started_ms = query_get_int(q, 8),
		.ended_ms = query_get_int(q, 9),
		.wall_ms = query_get_real(q, 10),
		.cpu_ms = query_get_real(q, 11),
		.memory_peak_bytes = (uint64_t)query_get_int(q, 12),
		.background = query_get_int(q, 13) != 0,
		.result_kept = query_get_int(q, 14) != 0,
		.result = query_get_text(q, 15),
	};
	query_copy_text(q, 0, ret->id, sizeof(ret->id));
	if (!owner || owner_parse(owner, &ret->owner) < 0)
		return db_fail(q->store, SQLITE_CORRUPT, err);
	return 0;
}

static void bind(struct query *q, const struct run_record *r, char owner[OWNER_SIZE])
{
	bool ended = !r->under_way;
	const char *result = ended ? r->result : NULL;
	size_t len = result ? strlen(result) : 0;

	query_text(q, r->id);
	query_owner(q, &r->owner, owner);
	query_text(q, r->sandbox);
	query_text(q, r->language);
	query_text(q, ended ? status_name(r->status) : NULL);
	if (ended && r->exited)
		query_int(q, r->exit_code);
	else
		query_time(q, 0);
	query_time(q, ended ? r->signal : 0);
	query_text(q, ended ? r->message : NULL);
	query_int(q, r->started_ms);
	query_time(q, ended ? r->ended_ms : 0);
	query_real(q, ended ? r->wall_ms : 0);
	query_real(q, ended ? r->cpu_ms : 0);
	query_int(q, ended ? (int64_t)r->memory_peak_bytes : 0);
	query_int(q, r->background);
	query_text(q, len <= RUN_RESULT_MAX ? result : NULL);
	query_int(q, len <= RUN_RESULT_MAX ? (int64_t)len : 0);
}

int store_run_put(struct store *s, const struct run_record *r, struct cay_error *err)
{
	_cleanup_(query_end) struct query q = {0};
	char owner[OWNER_SIZE];

	if ((r->background ? db_promise(s, err) : db_gather(s, err)) < 0 ||
	    query_begin(
		    &q, s,
		    "INSERT INTO runs VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12,"
		    " ?13, ?14, ?15, ?16) ON CONFLICT (id) DO UPDATE SET"
		    " language = excluded.language, status = excluded.status,"
		    " exit_code = excluded.exit_code, signal = excluded.signal,"
		    " message = excluded.message, ended = excluded.ended,"
		    " wall_ms = excluded.wall_ms, cpu_ms = excluded.cpu_ms,"
		    " memory_peak = excluded.memory_peak, result = excluded.result,"
		    " result_bytes = excluded.result_bytes"
		    " WHERE owner = excluded.owner",
		    err) < 0)
		return -1;
	bind(&q, r, owner);
	return query_run(&q, NULL, err);
}

int store_run_get(struct store *s, const struct viewer *v, const char *id, store_run_fn *fn,
		  void *ctx, struct cay_error *err)
{
	_cleanup_(query_end) struct query q;
	struct run_record record;
	char owner[OWNER_SIZE];
	int r;

	if (query_begin(
		    &q, s,
		    "SELECT " COLUMNS("result") " FROM runs WHERE id = ?1 AND (?2 OR owner = ?3)",
		    err) < 0)
		return -1;
	query_text(&q, id);
	query_int(&q, v->all);
	query_owner(&q, &v->owner, owner);
	r = query_step(&q, err);
	if (r == 0)
		return cay_fail(err, CAY_E_NOT_FOUND, 0, "there is no run %.*s", ID_SIZE, id);
	if (r < 0 || read_row(&q, &record, err) < 0)
		return -1;
	fn(ctx, &record);
	return 0;
}

static int list(struct query *q, struct page *page, store_run_fn *fn, void *ctx,
		struct cay_error *err)
{
	struct page_walk w;
	int r;

	page_begin(&w, page);
	while ((r = query_step(q, err)) > 0) {
		struct run_record record;

		if (read_row(q, &record, err) < 0)
			return -1;
		if (!page_take(&w, record.started_ms, record.id))
			return 0;
		fn(ctx, &record);
	}
	return r;
}

#define LIST(whose)                                                                                \
	"SELECT " COLUMNS("NULL") " FROM runs WHERE " whose                                        \
				  " AND (?2 IS NULL OR sandbox = ?2) AND (started, id) < (?3, ?4)" \
				  " ORDER BY started DESC, id DESC LIMIT ?5"

int store_runs_list(struct store *s, const struct viewer *v, const char *sandbox, struct page *page,
		    store_run_fn *fn, void *ctx, struct cay_error *err)
{
	_cleanup_(query_end) struct query q;
	char owner[OWNER_SIZE];

	if (query_begin(&q, s, v->all ? LIST("?1 IS NULL") : LIST("owner = ?1"), err) < 0)
		return -1;
	query_text(&q, v->all ? NULL : owner_text(&v->owner, owner));
	query_text(&q, sandbox);
	return page_bind(page, &q, err) < 0 ? -1 : list(&q, page, fn, ctx, err);
}

static int kept_bytes(struct store *s, int64_t *ret, struct cay_error *err)
{
	_cleanup_(query_end) struct query q;

	if (query_begin(&q, s, "SELECT bytes FROM results", err) < 0 || query_step(&q, err) < 0)
		return -1;
	*ret = query_get_int(&q, 0);
	return 0;
}

static int drop_oldest(struct store *s, struct cay_error *err)
{
	_cleanup_(query_end) struct query q;

	if (query_begin(
		    &q, s,
		    "UPDATE runs SET result = NULL, result_bytes = 0 WHERE id ="
		    " (SELECT id FROM runs WHERE result_bytes > 0 ORDER BY started, id LIMIT 1)",
		    err) < 0)
		return -1;
	return query_run(&q, NULL, err);
}

int store_results_trim(struct store *s, int64_t max_bytes, bool *ret_more, struct cay_error *err)
{
	int64_t bytes = 0;
	int n = 0;

	*ret_more = false;
	if (kept_bytes(s, &bytes, err) < 0)
		return -1;
	for (; bytes > max_bytes && n < TRIM_STEP; n++)
		if (db_gather(s, err) < 0 || drop_oldest(s, err) < 0 ||
		    kept_bytes(s, &bytes, err) < 0)
			return -1;
	*ret_more = bytes > max_bytes;
	return 0;
}

int store_runs_cpu_ms(struct store *s, const struct owner *o, int64_t since_ms, double *ret,
		      struct cay_error *err)
{
	_cleanup_(query_end) struct query q;
	char owner[OWNER_SIZE];

	if (query_begin(&q, s, "SELECT total(cpu_ms) FROM runs WHERE owner = ?1 AND started >= ?2",
			err) < 0)
		return -1;
	query_owner(&q, o, owner);
	query_int(&q, since_ms);
	if (query_step(&q, err) < 0)
		return -1;
	*ret = query_get_real(&q, 0);
	return 0;
}
