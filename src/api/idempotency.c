#include "api/idempotency.h"

#include "api/api.h"
#include "api/caller.h"
#include "api/exchange.h"
#include "base/attr.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/http.h"
#include "base/log.h"
#include "store/idempotency.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char *key_of(const struct exchange *x)
{
	return request_header(exchange_request(x), "idempotency-key");
}

static void complain(const struct cay_error *err)
{
	log_error(err->text);
}

static bool is_streamed(const struct exchange *x)
{
	return exchange_request(x)->match.route->flags & ROUTE_STREAMS_BODY;
}

void idempotency_piece(struct exchange *x, const char *data, size_t len)
{
	struct caller *c = caller_of(x);

	if (c && !data)
		c->body_whole = true;
	else if (c && c->body)
		hasher_add(c->body, data, len);
}

/* What is kept of an answer to a streamed body. False: the body had not come, so it can't be. */
static bool with_hash(struct caller *c, const void *body, size_t len, struct buf *ret)
{
	struct hash hash;

	return c->body_whole && hasher_end(c->body, &hash) == 0 &&
	       buf_append(ret, hash.bytes, sizeof(hash.bytes)) == 0 &&
	       buf_append(ret, body, len) == 0;
}

static void keep(struct exchange *x, int status, const void *body, size_t len)
{
	_cleanup_(buf_done) struct buf whole = BUF(IDEMPOTENCY_BODY_MAX);
	struct caller *c = caller_of(x);
	struct cay_error err;

	if (!c->idempotent || status == 429 || status >= 500)
		return;
	if (is_streamed(x)) {
		if (!with_hash(c, body, len, &whole))
			return;
		body = whole.data;
		len = whole.len;
	}
	c->idempotent = false;
	if (store_idempotency_done(api_of(x)->store, &c->viewer.owner, key_of(x), status, body, len,
				   &err) < 0)
		complain(&err);
}

void idempotency_end(struct exchange *x)
{
	struct caller *c = caller_of(x);
	struct cay_error err;

	if (c && c->idempotent &&
	    store_idempotency_forget(api_of(x)->store, &c->viewer.owner, key_of(x), &err) < 0)
		complain(&err);
}

/* Of method, path, query and body, but of one that is streamed, which has not come yet. */
static int hash_request(const struct request *q, struct hash *ret, struct cay_error *err)
{
	_cleanup_(buf_done) struct buf b = BUF(64u << 10);
	struct hash body;

	if (hash_make(q->body ? q->body : "", q->body_len, &body, err) < 0)
		return -1;
	if (buf_printf(&b, "%s %s\n", q->method, q->head->url) < 0 ||
	    buf_append(&b, body.bytes, sizeof(body.bytes)) < 0)
		return cay_fail(err, CAY_E_INVALID, 0, "the request's path is too long");
	return hash_make(b.data, b.len, ret, err);
}

static int check(const struct exchange *x, struct cay_error *err)
{
	const unsigned never = ROUTE_STREAMS_ANSWER | ROUTE_ANSWERS_SECRET;

	if (exchange_request(x)->match.route->flags & never)
		return cay_fail(err, CAY_E_INVALID, 0,
				"Idempotency-Key: this call's answer can't be kept");
	if (exchange_wants_events(x))
		return cay_fail(err, CAY_E_INVALID, 0,
				"Idempotency-Key: not for a stream of events");
	return 0;
}

static void answer_again(struct exchange *x, const struct idempotency_answer *a)
{
	struct cay_error err;

	exchange_header(x, "Idempotency-Replayed", "true");
	if (a->body) {
		exchange_respond(x, a->status, "application/json", a->body, a->len);
		return;
	}
	(void)cay_fail(&err, CAY_E_CONFLICT, 0,
		       "the request was done, and its answer was too long to be kept");
	exchange_fail(x, &err);
}

static int other_request(struct cay_error *err)
{
	(void)cay_fail(err, CAY_E_CONFLICT, 0, "Idempotency-Key: it was used for another request");
	return cay_hint(err, "each request needs a key of its own");
}

static void answer_free(struct idempotency_answer *a)
{
	free(a->body);
	free(a);
}

static void on_body_end(struct exchange *x)
{
	struct idempotency_answer *a = exchange_ctx(x);
	struct cay_error err;
	struct hash hash;

	exchange_watch(x, NULL, NULL);
	if (hasher_end(caller_of(x)->body, &hash) < 0 || !a->body || a->len < HASH_SIZE ||
	    memcmp(a->body, hash.bytes, HASH_SIZE) != 0) {
		(void)other_request(&err);
		exchange_fail(x, &err);
	} else {
		a->len -= HASH_SIZE;
		memmove(a->body, a->body + HASH_SIZE, a->len);
		answer_again(x, a);
	}
	answer_free(a);
}

static void on_close(struct exchange *x, enum exchange_end how _unused_)
{
	answer_free(exchange_ctx(x));
}

static const struct exchange_events late_events = {.on_body_end = on_body_end,
						   .on_close = on_close};

/* At the end of a body that nobody needs: who sends it may read nothing before. */
static int answer_late(struct exchange *x, const struct idempotency_answer *a,
		       struct cay_error *err)
{
	struct idempotency_answer *copy = malloc(sizeof(*copy));

	if (!copy) {
		free(a->body);
		return cay_fail(err, CAY_E_INTERNAL, ENOMEM, "answer again");
	}
	*copy = *a;
	exchange_watch(x, &late_events, copy);
	return 1;
}

/* 0: go on. 1: it was answered, or will be. */
static int look(struct exchange *x, struct cay_error *err)
{
	struct caller *c = caller_of(x);
	struct idempotency_answer answer;
	enum idempotency found;
	struct hash hash;

	if (is_streamed(x)) {
		c->body = hasher_new();
		if (!c->body)
			return cay_fail(err, CAY_E_INTERNAL, 0, "no SHA-256 to be had");
	}
	if (check(x, err) < 0 || hash_request(exchange_request(x), &hash, err) < 0 ||
	    store_idempotency_begin(api_of(x)->store, &c->viewer.owner, key_of(x), &hash,
				    clock_wall_ms(), &found, &answer, err) < 0)
		return -1;
	switch (found) {
	case IDEMPOTENCY_NEW:
		c->idempotent = true;
		exchange_set_answered(x, keep);
		return 0;
	case IDEMPOTENCY_DONE:
		if (is_streamed(x))
			return answer_late(x, &answer, err);
		answer_again(x, &answer);
		free(answer.body);
		return 1;
	case IDEMPOTENCY_PENDING:
		(void)cay_fail(err, CAY_E_CONFLICT, 0,
			       "Idempotency-Key: the first request is still under way");
		return cay_hint(err, "wait a moment and ask again for its answer");
	case IDEMPOTENCY_OTHER:
		break;
	}
	return other_request(err);
}

bool idempotency_begin(struct exchange *x)
{
	struct cay_error err;
	int r = 0;

	if (caller_of(x) && key_of(x) && strcmp(exchange_request(x)->method, "POST") == 0)
		r = look(x, &err);
	if (r < 0)
		exchange_fail(x, &err);
	return r == 0;
}
