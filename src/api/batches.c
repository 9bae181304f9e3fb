#include "api/batches.h"

#include "api/api.h"
#include "api/caller.h"
#include "api/exchange.h"
#include "api/runs.h"
#include "base/attr.h"
#include "base/buf.h"
#include "base/json.h"
#include "spec/fields.h"
#include "spec/request.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#define PARALLEL_DEFAULT 16
#define PARALLEL_MAX     1024
#define ROOM_AGAIN_MS    20 /* how soon it is looked again for room that others have */

struct batch_run {
	struct batch *batch;
	size_t index;
	struct run_entry *run; /* NULL: not under way */
};

struct batch {
	struct exchange *x;
	struct json *body;
	const struct json *runs; /* of the body */
	size_t next;             /* the first that was not begun */
	size_t parallel, active;
	bool events, full;
	struct loop_timer again;
	struct batch_run *slots; /* parallel of them */
};

static void batch_free(struct batch *b)
{
	loop_cancel(exchange_loop(b->x), &b->again);
	for (size_t i = 0; i < b->parallel && b->slots; i++)
		if (b->slots[i].run)
			run_leave(b->slots[i].run);
	free(b->slots);
	json_free(b->body);
	free(b);
}

/* Takes the value over. */
static void tell(struct batch *b, size_t index, const char *kind, struct json *value)
{
	_cleanup_(json_freep) struct json *j = json_new_object();
	_cleanup_(buf_done) struct buf line = BUF((size_t)256 << 20);

	json_set_int(j, "index", (int64_t)index);
	json_set(j, kind, value);
	if (b->events)
		b->full |= exchange_event(b->x, "result", j) >= EXCHANGE_HIGH;
	else if (json_text(j, &line) < 0)
		exchange_abort(b->x);
	else
		b->full |= exchange_write(b->x, line.data, line.len) >= EXCHANGE_HIGH;
}

static void tell_error(struct batch *b, size_t index, const struct cay_error *err)
{
	_cleanup_(json_freep) struct json *j = cay_error_json(err, exchange_request(b->x)->id);

	tell(b, index, "error", json_share(json_get(j, "error")));
}

static void fill(struct batch *b);

static void on_ended(void *ctx, struct json *result, const struct cay_error *err)
{
	struct batch_run *r = ctx;
	struct batch *b = r->batch;

	r->run = NULL;
	b->active--;
	if (err) {
		tell_error(b, r->index, err);
		json_free(result);
	} else {
		tell(b, r->index, "result", result);
	}
	fill(b);
}

static struct batch_run *free_slot(struct batch *b)
{
	for (size_t i = 0; i < b->parallel; i++)
		if (!b->slots[i].run)
			return &b->slots[i];
	return NULL;
}

static int read_one(struct batch *b, size_t index, struct request_body **ret, struct cay_error *err)
{
	struct request_body *body = calloc(1, sizeof(*body));

	if (!body)
		return cay_fail(err, CAY_E_INTERNAL, ENOMEM, "read the request");
	if (request_read(body, REQUEST_RUN, json_at(b->runs, index), err) == 0 &&
	    !body->background && !body->dry_run) {
		*ret = body;
		return 0;
	}
	if (body->background || body->dry_run)
		(void)cay_fail(err, CAY_E_INVALID, 0,
			       "background and dry_run are not for the runs of a batch");
	request_body_free(body);
	return -1;
}

/* What will pass by itself, and soon: others have the room. */
static bool is_passing(const struct cay_error *err, int64_t retry_s)
{
	return (err->code == CAY_E_AT_CAPACITY || err->code == CAY_E_RATE_LIMITED) && retry_s <= 1;
}

/* False: there is no room now. */
static bool begin_next(struct batch *b)
{
	struct batch_run *slot = free_slot(b);
	struct run_ask ask = {.caller = caller_of(b->x),
			      .peer = exchange_request(b->x)->peer,
			      .patient = true,
			      .ended = on_ended,
			      .ctx = slot};
	int64_t retry_s = 0;
	struct cay_error err;

	assert(slot); /* there are as many as run at once */
	slot->index = b->next;
	if (read_one(b, b->next, &ask.body, &err) == 0)
		slot->run = run_start(api_of(b->x), &ask, &retry_s, &err);
	if (!slot->run && retry_s > 0 && is_passing(&err, retry_s) && !api_of(b->x)->draining)
		return false;
	b->next++;
	if (slot->run)
		b->active++;
	else
		tell_error(b, slot->index, &err);
	return true;
}

static void finish(struct batch *b)
{
	struct exchange *x = b->x;

	exchange_watch(x, NULL, NULL);
	batch_free(b);
	exchange_end(x);
}

static void fill(struct batch *b)
{
	size_t all = json_len(b->runs);
	bool room = true;

	while (room && !b->full && b->next < all && b->active < b->parallel)
		room = begin_next(b);
	/* One that ends makes room; where none is under way others must. */
	if (!room && b->active == 0)
		(void)loop_after(exchange_loop(b->x), &b->again, ROOM_AGAIN_MS);
	if (b->next == all && b->active == 0)
		finish(b);
}

static void on_again(struct loop_timer *t)
{
	fill(t->ctx);
}

static void on_drain(struct exchange *x)
{
	struct batch *b = exchange_ctx(x);

	b->full = false;
	fill(b);
}

static void on_close(struct exchange *x, enum exchange_end how _unused_)
{
	struct batch *b = exchange_ctx(x);

	if (b)
		batch_free(b);
}

static const struct exchange_events batch_events = {.on_drain = on_drain, .on_close = on_close};

static int set_parallel(struct batch *b, const struct json *v, struct cay_error *err)
{
	b->parallel = PARALLEL_DEFAULT;
	if (!v)
		return 0;
	if (json_kind(v) != JSON_KIND_INT || json_int(v) < 1 || json_int(v) > PARALLEL_MAX)
		return cay_fail(err, CAY_E_INVALID, 0, "parallel: expected a number from 1 to %d",
				PARALLEL_MAX);
	b->parallel = (size_t)json_int(v);
	return 0;
}

static int check_names(const struct json *body, struct cay_error *err)
{
	size_t known = json_get(body, "runs") ? 1 : 0;

	if (json_get(body, "parallel"))
		known++;
	if (json_kind(body) == JSON_KIND_OBJECT && json_len(body) == known)
		return 0;
	return cay_fail(err, CAY_E_INVALID, 0, "expected an object with runs, and maybe parallel");
}

static int read_batch(struct batch *b, struct cay_error *err)
{
	const struct request *q = exchange_request(b->x);

	if (fields_parse(q->body, q->body_len, BATCH_MAX_BYTES, &b->body, err) < 0)
		return cay_wrap(err, "the request");
	if (check_names(b->body, err) < 0 ||
	    set_parallel(b, json_get(b->body, "parallel"), err) < 0)
		return -1;
	b->runs = json_get(b->body, "runs");
	if (json_kind(b->runs) != JSON_KIND_ARRAY || json_len(b->runs) > BATCH_RUNS_MAX)
		return cay_fail(err, CAY_E_INVALID, 0, "runs: expected a list of at most %d",
				BATCH_RUNS_MAX);
	b->slots = calloc(b->parallel, sizeof(*b->slots));
	for (size_t i = 0; b->slots && i < b->parallel; i++)
		b->slots[i].batch = b;
	return b->slots ? 0 : cay_fail(err, CAY_E_INTERNAL, ENOMEM, "start the batch");
}

static void batch_create(struct exchange *x)
{
	struct batch *b = calloc(1, sizeof(*b));
	struct cay_error err;

	if (!b) {
		(void)cay_fail(&err, CAY_E_INTERNAL, ENOMEM, "start the batch");
		exchange_fail(x, &err);
		return;
	}
	b->x = x;
	b->events = exchange_wants_events(x);
	b->again = (struct loop_timer){.fire = on_again, .ctx = b};
	if (read_batch(b, &err) < 0) {
		batch_free(b);
		exchange_fail(x, &err);
		return;
	}
	exchange_watch(x, &batch_events, b);
	if (b->events)
		exchange_events_begin(x);
	else
		exchange_begin(x, 200, "application/x-ndjson");
	fill(b);
}

const struct route route_batch_create = {
	.method = "POST",
	.pattern = "/v1/batches",
	.handle = batch_create,
	.flags = ROUTE_CANCELS_ON_FIN | ROUTE_STREAMS_ANSWER,
	.max_body = BATCH_MAX_BYTES,
	.name = "batch.create",
};
