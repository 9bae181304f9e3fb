#include "store/db.h"

#include "base/attr.h"
#include "base/parse.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int db_fail(struct store *s, int rc, struct cay_error *err)
{
	const char *file = s->file;

	switch (rc & 0xff) {
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
		(void)cay_fail(err, CAY_E_INTERNAL, 0, "the database %s is damaged: %s", file,
			       sqlite3_errstr(rc));
		return cay_hint(err, "move it away to begin with an empty one");
	case SQLITE_FULL:
		return cay_fail(err, CAY_E_INTERNAL, ENOSPC, "write the database %s", file);
	case SQLITE_READONLY:
	case SQLITE_PERM:
	case SQLITE_CANTOPEN:
		return cay_fail(err, CAY_E_INTERNAL, 0, "can't write the database %s: %s", file,
				sqlite3_errstr(rc));
	case SQLITE_BUSY:
		return cay_fail(err, CAY_E_INTERNAL, 0, "another process is writing %s", file);
	default:
		return cay_fail(err, CAY_E_INTERNAL, rc == SQLITE_NOMEM ? ENOMEM : 0,
				"the database %s: %s", file,
				s->db ? sqlite3_errmsg(s->db) : sqlite3_errstr(rc));
	}
}

int db_exec(struct store *s, const char *sql, struct cay_error *err)
{
	int rc = sqlite3_exec(s->db, sql, NULL, NULL, NULL);

	return rc == SQLITE_OK ? 0 : db_fail(s, rc, err);
}

bool store_is_dirty(const struct store *s)
{
	return !sqlite3_get_autocommit(s->db);
}

int db_gather(struct store *s, struct cay_error *err)
{
	return store_is_dirty(s) ? 0 : db_exec(s, "BEGIN IMMEDIATE", err);
}

int db_promise(struct store *s, struct cay_error *err)
{
	return store_flush(s, err);
}

int store_flush(struct store *s, struct cay_error *err)
{
	struct cay_error ignored;

	if (!store_is_dirty(s) || db_exec(s, "COMMIT", err) == 0)
		return 0;
	/* Some failures have ended it already. */
	if (store_is_dirty(s))
		(void)db_exec(s, "ROLLBACK", &ignored);
	return cay_wrap(err, "history and audit records are lost");
}

int db_begin(struct store *s, struct cay_error *err)
{
	return db_promise(s, err) < 0 ? -1 : db_exec(s, "BEGIN IMMEDIATE", err);
}

int db_end(struct store *s, int result, struct cay_error *err)
{
	struct cay_error ignored;

	if (result == 0 && db_exec(s, "COMMIT", err) == 0)
		return 0;
	if (store_is_dirty(s))
		(void)db_exec(s, "ROLLBACK", &ignored);
	return -1;
}

static int prepare(struct store *s, const char *sql, sqlite3_stmt **ret, struct cay_error *err)
{
	struct db_statement *st;
	int rc;

	for (size_t i = 0; i < s->n_statements; i++)
		if (s->statements[i].sql == sql) {
			*ret = s->statements[i].handle;
			return 0;
		}
	assert(s->n_statements < DB_STATEMENTS_MAX); /* as many as there are in this room */
	st = &s->statements[s->n_statements];
	rc = sqlite3_prepare_v3(s->db, sql, -1, SQLITE_PREPARE_PERSISTENT, &st->handle, NULL);
	if (rc != SQLITE_OK)
		return db_fail(s, rc, err);
	st->sql = sql;
	s->n_statements++;
	*ret = st->handle;
	return 0;
}

int query_begin(struct query *q, struct store *s, const char *sql, struct cay_error *err)
{
	*q = (struct query){.store = s};
	return prepare(s, sql, &q->handle, err);
}

void query_end(struct query *q)
{
	if (!q->handle)
		return;
	(void)sqlite3_reset(q->handle);
	(void)sqlite3_clear_bindings(q->handle);
	q->handle = NULL;
}

static void bound(struct query *q, int rc)
{
	if (rc != SQLITE_OK && q->rc == SQLITE_OK)
		q->rc = rc;
}

void query_text(struct query *q, const char *text)
{
	bound(q, sqlite3_bind_text(q->handle, ++q->n_bound, text, -1, SQLITE_STATIC));
}

void query_int(struct query *q, int64_t v)
{
	bound(q, sqlite3_bind_int64(q->handle, ++q->n_bound, v));
}

void query_time(struct query *q, int64_t v)
{
	if (v)
		query_int(q, v);
	else
		bound(q, sqlite3_bind_null(q->handle, ++q->n_bound));
}

void query_real(struct query *q, double v)
{
	bound(q, sqlite3_bind_double(q->handle, ++q->n_bound, v));
}

void query_blob(struct query *q, const void *data, size_t len)
{
	bound(q, sqlite3_bind_blob64(q->handle, ++q->n_bound, data, len, SQLITE_STATIC));
}

void query_owner(struct query *q, const struct owner *o, char text[OWNER_SIZE])
{
	query_text(q, owner_text(o, text));
}

static int step(struct query *q)
{
	if (q->rc != SQLITE_OK)
		return q->rc;
	assert(q->n_bound == sqlite3_bind_parameter_count(q->handle));
	return sqlite3_step(q->handle);
}

int query_step(struct query *q, struct cay_error *err)
{
	int rc = step(q);

	if (rc == SQLITE_ROW)
		return 1;
	return rc == SQLITE_DONE ? 0 : db_fail(q->store, rc, err);
}

int query_run(struct query *q, int64_t *ret_changed, struct cay_error *err)
{
	int rc = step(q);

	if (rc != SQLITE_DONE)
		return db_fail(q->store, rc, err);
	if (ret_changed)
		*ret_changed = sqlite3_changes64(q->store->db);
	return 0;
}

int query_run_unique(struct query *q, const char *conflict, struct cay_error *err)
{
	int rc = step(q), extended = sqlite3_extended_errcode(q->store->db);

	if (rc == SQLITE_DONE)
		return 0;
	if ((rc & 0xff) == SQLITE_CONSTRAINT &&
	    (extended == SQLITE_CONSTRAINT_UNIQUE || extended == SQLITE_CONSTRAINT_PRIMARYKEY))
		return cay_fail(err, CAY_E_CONFLICT, 0, "%s", conflict);
	return db_fail(q->store, rc, err);
}

const char *query_get_text(struct query *q, int column)
{
	return (const char *)sqlite3_column_text(q->handle, column);
}

int64_t query_get_int(struct query *q, int column)
{
	return sqlite3_column_int64(q->handle, column);
}

double query_get_real(struct query *q, int column)
{
	return sqlite3_column_double(q->handle, column);
}

void query_copy_text(struct query *q, int column, char *text, size_t size)
{
	const char *from = query_get_text(q, column);

	(void)snprintf(text, size, "%s", from ? from : "");
}

static unsigned page_limit(const struct page *page)
{
	return page->limit == 0 ? 100 : (unsigned)size_min(page->limit, PAGE_LIMIT_MAX);
}

/* "TIME.ID": behind this row. The ids are ours, but a cursor has been in foreign hands. */
int page_bind(const struct page *page, struct query *q, struct cay_error *err)
{
	char number[24];
	size_t n = strcspn(page->cursor, ".");
	uint64_t time = INT64_MAX;

	if (page->cursor[0]) {
		(void)snprintf(number, sizeof(number), "%.*s", (int)size_min(n, 23), page->cursor);
		if (!memchr(page->cursor, '\0', sizeof(page->cursor)) || page->cursor[n] != '.' ||
		    n > 19 || parse_u64(number, 0, INT64_MAX, &time) < 0)
			return cay_fail(err, CAY_E_INVALID, 0, "cursor: not one of ours");
	}
	query_int(q, (int64_t)time);
	query_text(q, page->cursor[0] ? page->cursor + n + 1 : "");
	query_int(q, (int64_t)page_limit(page) + 1);
	return 0;
}

void page_begin(struct page_walk *w, struct page *page)
{
	*w = (struct page_walk){.page = page, .left = page_limit(page)};
	page->cursor[0] = '\0';
}

bool page_take(struct page_walk *w, int64_t time_ms, const char *id)
{
	if (w->left == 0) {
		memcpy(w->page->cursor, w->last, sizeof(w->last));
		return false;
	}
	w->left--;
	(void)snprintf(w->last, sizeof(w->last), "%lld.%s", (long long)time_ms, id);
	return true;
}
