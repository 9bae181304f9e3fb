/*
 * db.h: SQLite for this room alone: statements that are prepared once, and what
 * its errors are called. Statements are string constants: they are known by their
 * address.
 */
#pragma once

#include "core/error.h"
#include "store/owner.h"
#include "store/store.h"

#include <sqlite3.h>

#define DB_STATEMENTS_MAX 64

struct db_statement {
	const char *sql;
	sqlite3_stmt *handle;
};

struct store {
	sqlite3 *db;
	char *file;
	struct db_statement statements[DB_STATEMENTS_MAX];
	size_t n_statements;
};

/* Runs a script. */
int db_exec(struct store *s, const char *sql, struct cay_error *err);

/* What rc, SQLite's answer, means for whoever asked. Returns -1. */
int db_fail(struct store *s, int rc, struct cay_error *err);

/* Before a write that may wait: it joins the open transaction, or opens one. */
int db_gather(struct store *s, struct cay_error *err);

/* Before a write that is promised: what was gathered is committed, and it is a transaction itself.
 */
int db_promise(struct store *s, struct cay_error *err);

/* Around several statements that are promised together; db_end() commits if all went well. */
int db_begin(struct store *s, struct cay_error *err);
int db_end(struct store *s, int result, struct cay_error *err);

/*
 * A statement being used: give values to its parameters in order, then step. What
 * is bound and what columns give is borrowed until the next step or the end.
 */
struct query {
	struct store *store;
	sqlite3_stmt *handle;
	int n_bound;
	int rc; /* the first failure */
};

int query_begin(struct query *q, struct store *s, const char *sql, struct cay_error *err);
void query_end(struct query *q);

void query_text(struct query *q, const char *text); /* NULL: null */
void query_int(struct query *q, int64_t v);
void query_time(struct query *q, int64_t v); /* 0: null */
void query_real(struct query *q, double v);
void query_blob(struct query *q, const void *data, size_t len); /* NULL: null */
void query_owner(struct query *q, const struct owner *o, char text[OWNER_SIZE]);

/* 1: there is a row, 0: there is none (any more), -1. */
int query_step(struct query *q, struct cay_error *err);

/* For a statement without rows. *ret_changed (or NULL): how many it changed. */
int query_run(struct query *q, int64_t *ret_changed, struct cay_error *err);

/* The same; a row that must be the only one of its kind is CAY_E_CONFLICT with this text. */
int query_run_unique(struct query *q, const char *conflict, struct cay_error *err);

const char *query_get_text(struct query *q, int column); /* NULL: null */
int64_t query_get_int(struct query *q, int column);
double query_get_real(struct query *q, int column);
void query_copy_text(struct query *q, int column, char *text, size_t size);

/*
 * Pages go by a time and an id, latest first: binds the cursor's two, and the
 * limit with one row more, which tells whether there is another page.
 */
int page_bind(const struct page *page, struct query *q, struct cay_error *err);

/* Before a row is given out: false at the one row more. Keeps its cursor for the next page. */
struct page_walk {
	struct page *page;
	unsigned left;
	char last[64];
};

void page_begin(struct page_walk *w, struct page *page);
bool page_take(struct page_walk *w, int64_t time_ms, const char *id);
