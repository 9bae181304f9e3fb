/*
 * Runs that wait for room. Whenever there is some, the next begin, in turn (session/queue.h): so
 * where there is room and somebody waits all the same, it is for his own quota, and whoever comes
 * then overtakes nobody.
 */
#include "api/runs_impl.h"

#include "api/api.h"
#include "api/caller.h"
#include "api/events.h"
#include "api/metrics.h"
#include "api/run_history.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/parse.h"
#include "engine/engine.h"
#include "session/quota.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

/* Of all requests that wait, beside how many they may be. */
#define QUEUED_BYTES_MAX ((size_t)256 << 20)

static uint64_t wait_of(const struct api *api, const struct run_ask *ask)
{
	if (ask->body->has_wait)
		return ask->body->wait_ms;
	return ask->patient ? RUN_WAITS_ANY : api->settings.serve_wait * 1000;
}

static struct queue_bounds bounds_of(const struct api *api)
{
	return (struct queue_bounds){api->settings.serve_queue, api->settings.serve_queue_per_key};
}

/* What waits is kept whole. */
static int check_bytes(const struct runs *r, size_t bytes, struct cay_error *err)
{
	if (bytes <= QUEUED_BYTES_MAX - r->queued_bytes)
		return 0;
	(void)cay_fail(err, CAY_E_AT_CAPACITY, 0,
		       "the requests that wait for room already have %zu MiB",
		       r->queued_bytes >> 20);
	return cay_hint(err, "try again in 1 s");
}

int run_admit(struct api *api, const struct run_ask *ask, uint64_t *ret_wait_ms,
	      int64_t *ret_retry_s, struct cay_error *err)
{
	const struct owner *o = &ask->caller->viewer.owner;
	const struct key_quotas *quotas = &ask->caller->quotas;
	const struct queue_bounds max = bounds_of(api);
	uint64_t wait_ms = max.all > 0 && max.each > 0 ? wait_of(api, ask) : 0;
	int64_t now = clock_now_ms();

	*ret_wait_ms = 0;
	*ret_retry_s = 1;
	if (wait_ms == 0 || quota_has_room(api->quota, o, quotas))
		return quota_take_run(api->quota, o, quotas, now, ret_retry_s, err);
	if (quota_check_times(api->quota, o, quotas, now, ret_retry_s, err) < 0 ||
	    queue_check(api->runs->queue, o, &max, err) < 0 ||
	    check_bytes(api->runs, ask->bytes, err) < 0)
		return -1;
	*ret_wait_ms = wait_ms;
	return 0;
}

bool run_waits(const struct run_entry *e)
{
	return e->place.lane || e->dropped;
}

static void leave(struct run_entry *e)
{
	queue_leave(e->runs->queue, &e->place);
	e->runs->queued_bytes -= e->queued_bytes;
	e->queued_bytes = 0;
}

void run_unwait(struct run_entry *e)
{
	leave(e);
	loop_cancel(e->runs->api->loop, &e->patience);
	fd_closep(&e->peer);
}

/* It is room's turn to be given: or it has none, and that is its end. */
static void go(struct run_entry *e)
{
	struct api *api = e->runs->api;
	double waited_ms = clock_ms_since(e->since_ns);
	struct cay_error err;
	int64_t retry_s;

	leave(e);
	loop_cancel(api->loop, &e->patience);
	e->order.queued_ms = waited_ms;
	if (quota_take_run(api->quota, &e->record.owner, &e->quotas, clock_now_ms(), &retry_s,
			   &err) < 0) {
		char text[32];

		(void)cay_wrap(&err, "after %s of waiting",
			       format_duration((uint64_t)waited_ms, text, sizeof(text)));
		run_conclude(e, NULL, &err);
		return;
	}
	e->counted = true;
	metrics_waited(api->metrics, waited_ms);
	if (run_begin(e, &err) < 0)
		run_conclude(e, NULL, &err);
	else
		fd_closep(&e->peer);
}

static void conclude_cancelled(struct run_entry *e)
{
	struct result r = {.status = STATUS_CANCELLED, .message = "cancelled"};

	memcpy(r.id, e->record.id, sizeof(r.id));
	memcpy(r.sandbox, e->sandbox, sizeof(r.sandbox));
	r.queued_ms = clock_ms_since(e->since_ns);
	r.sandboxed = true; /* nothing of it has run */
	r.decision = e->decision;
	run_conclude(e, &r, NULL);
	result_done(&r);
}

static void on_patience(struct loop_timer *t)
{
	struct run_entry *e = t->ctx;

	if (!e->dropped)
		go(e);
	else if (e->refused.code != CAY_OK)
		run_conclude(e, NULL, &e->refused);
	else
		conclude_cancelled(e);
}

void run_drop(struct run_entry *e, const struct cay_error *refused)
{
	if (!e->place.lane)
		return;
	run_unwait(e);
	e->dropped = true;
	if (refused)
		e->refused = *refused;
	(void)loop_after(e->runs->api->loop, &e->patience, 0);
}

int run_wait(struct run_entry *e, struct cay_error *err)
{
	struct loop *loop = e->runs->api->loop;

	/* One in the background may have to wait for longer than its caller's connection is there.
	 */
	if (e->order.plan && !e->order.engine->sandboxed && e->order.peer >= 0) {
		e->peer = fcntl(e->order.peer, F_DUPFD_CLOEXEC, 0);
		if (e->peer < 0)
			return cay_fail(err, CAY_E_AT_CAPACITY, errno, "wait for room");
	}
	e->order.peer = e->peer;
	e->since_ns = clock_now_ns();
	e->place.ctx = e;
	e->patience = (struct loop_timer){.fire = on_patience, .ctx = e};
	if (e->wait_ms != RUN_WAITS_ANY && loop_after(loop, &e->patience, e->wait_ms) < 0)
		return cay_fail(err, CAY_E_INTERNAL, ENOMEM, "wait for room");
	e->record.waits = true;
	if (queue_join(e->runs->queue, &e->record.owner, e->sandbox, &e->place, err) < 0)
		return -1;
	e->queued_bytes = e->bytes;
	e->runs->queued_bytes += e->bytes;
	if (events_followed(e->runs->api))
		event_publish(e->runs->api, "run.queued", &e->record.owner, run_json(&e->record));
	return 0;
}

void run_tell_waiting(struct run_entry *e)
{
	_cleanup_(json_freep) struct json *j = NULL;

	if (!run_waits(e))
		return;
	j = json_new_object();
	json_set_str(j, "id", e->record.id);
	json_set_int(j, "ahead", e->place.lane ? (int64_t)queue_ahead(&e->place) : 0);
	run_stream_tell(&e->stream, "queued", j);
}

static bool may_begin(void *ctx, const struct queue_place *p)
{
	struct runs *r = ctx;
	const struct run_entry *e = p->ctx;

	return quota_has_room(r->api->quota, &e->record.owner, &e->quotas);
}

void runs_serve(struct runs *r)
{
	struct queue_place *p;

	/* What can't begin makes room again, which is given here, and not within. */
	if (r->serving || r->api->draining)
		return;
	r->serving = true;
	while ((p = queue_next(r->queue, may_begin, r)))
		go(p->ctx);
	r->serving = false;
}

size_t runs_waiting(const struct runs *r)
{
	return queue_length(r->queue);
}

void runs_turn_away(struct runs *r)
{
	struct cay_error err;

	(void)cay_fail(&err, CAY_E_AT_CAPACITY, 0, "the daemon is ending");
	for (size_t n = 0; n < RUN_BUCKETS; n++)
		for (struct run_entry *e = r->buckets[n]; e; e = e->next)
			run_drop(e, &err);
}
