#include "store/idempotency.h"

#include "base/attr.h"
#include "store/db.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int read_answer(struct query *q, struct idempotency_answer *ret, struct cay_error *err)
{
	const void *body = sqlite3_column_blob(q->handle, 2);
	size_t len = (size_t)sqlite3_column_bytes(q->handle, 2);

	*ret = (struct idempotency_answer){.status = (int)query_get_int(q, 1)};
	if (sqlite3_column_type(q->handle, 2) == SQLITE_NULL)
		return 0;
	ret->body = malloc(len + 1);
	if (!ret->body)
		return cay_fail(err, CAY_E_INTERNAL, ENOMEM, "read an answer");
	if (len > 0)
		memcpy(ret->body, body, len);
	ret->body[len] = '\0';
	ret->len = len;
	return 0;
}

/* 1: found, and *ret says what; 0: not. */
static int find(struct store *s, const char *owner, const char *key, const struct hash *request,
		int64_t now_ms, enum idempotency *ret, struct idempotency_answer *ret_answer,
		struct cay_error *err)
{
	_cleanup_(query_end) struct query q;
	int r;

	if (query_begin(&q, s,
			"SELECT request, status, body FROM idempotency"
			" WHERE owner = ?1 AND key = ?2 AND expires >= ?3",
			err) < 0)
		return -1;
	query_text(&q, owner);
	query_text(&q, key);
	query_int(&q, now_ms);
	r = query_step(&q, err);
	if (r <= 0)
		return r;
	if (sqlite3_column_bytes(q.handle, 0) != HASH_SIZE ||
	    memcmp(sqlite3_column_blob(q.handle, 0), request->bytes, HASH_SIZE) != 0)
		*ret = IDEMPOTENCY_OTHER;
	else if (sqlite3_column_type(q.handle, 1) == SQLITE_NULL)
		*ret = IDEMPOTENCY_PENDING;
	else
		*ret = IDEMPOTENCY_DONE;
	if (*ret == IDEMPOTENCY_DONE && read_answer(&q, ret_answer, err) < 0)
		return -1;
	return 1;
}

static int insert(struct store *s, const char *owner, const char *key, const struct hash *request,
		  int64_t now_ms, struct cay_error *err)
{
	_cleanup_(query_end) struct query q;

	/* One that has expired may still stand there. */
	if (query_begin(&q, s,
			"INSERT OR REPLACE INTO idempotency (owner, key, request, expires)"
			" VALUES (?1, ?2, ?3, ?4)",
			err) < 0)
		return -1;
	query_text(&q, owner);
	query_text(&q, key);
	query_blob(&q, request->bytes, HASH_SIZE);
	query_int(&q, now_ms + IDEMPOTENCY_MS);
	return query_run(&q, NULL, err);
}

/* Rows are numbered as they come: the oldest of an owner have the lowest numbers. */
static int make_room(struct store *s, const char *owner, struct cay_error *err)
{
	_cleanup_(query_end) struct query q;

	if (query_begin(&q, s,
			"DELETE FROM idempotency WHERE rowid IN (SELECT id FROM"
			" (SELECT rowid AS id, count(*) OVER latest AS n,"
			"  total(length(body)) OVER latest AS bytes FROM idempotency"
			"  WHERE owner = ?1 AND status IS NOT NULL"
			"  WINDOW latest AS (ORDER BY rowid DESC))"
			" WHERE n > ?2 OR bytes > ?3)",
			err) < 0)
		return -1;
	query_text(&q, owner);
	query_int(&q, IDEMPOTENCY_OWNER_MAX - 1);
	/* The one that begins may bring the longest. */
	query_int(&q, IDEMPOTENCY_OWNER_BYTES - IDEMPOTENCY_BODY_MAX);
	return query_run(&q, NULL, err);
}

int store_idempotency_begin(struct store *s, const struct owner *o, const char *key,
			    const struct hash *request, int64_t now_ms, enum idempotency *ret,
			    struct idempotency_answer *ret_answer, struct cay_error *err)
{
	char owner[OWNER_SIZE];
	int r;

	*ret_answer = (struct idempotency_answer){0};
	if (!*key || strlen(key) > IDEMPOTENCY_KEY_MAX)
		return cay_fail(err, CAY_E_INVALID, 0, "Idempotency-Key: expected 1 to %d bytes",
				IDEMPOTENCY_KEY_MAX);
	(void)owner_text(o, owner);
	r = find(s, owner, key, request, now_ms, ret, ret_answer, err);
	if (r != 0)
		return r < 0 ? -1 : 0;
	*ret = IDEMPOTENCY_NEW;
	if (db_gather(s, err) < 0 || make_room(s, owner, err) < 0)
		return -1;
	return insert(s, owner, key, request, now_ms, err);
}

int store_idempotency_done(struct store *s, const struct owner *o, const char *key, int status,
			   const char *body, size_t len, struct cay_error *err)
{
	_cleanup_(query_end) struct query q = {0};
	char owner[OWNER_SIZE];

	if (db_gather(s, err) < 0 || query_begin(&q, s,
						 "UPDATE idempotency SET status = ?3, body = ?4"
						 " WHERE owner = ?1 AND key = ?2",
						 err) < 0)
		return -1;
	query_owner(&q, o, owner);
	query_text(&q, key);
	query_int(&q, status);
	query_blob(&q, len <= IDEMPOTENCY_BODY_MAX ? (body ? body : "") : NULL, len);
	return query_run(&q, NULL, err);
}

int store_idempotency_forget(struct store *s, const struct owner *o, const char *key,
			     struct cay_error *err)
{
	_cleanup_(query_end) struct query q = {0};
	char owner[OWNER_SIZE];

	if (db_gather(s, err) < 0 ||
	    query_begin(&q, s, "DELETE FROM idempotency WHERE owner = ?1 AND key = ?2", err) < 0)
		return -1;
	query_owner(&q, o, owner);
	query_text(&q, key);
	return query_run(&q, NULL, err);
}
