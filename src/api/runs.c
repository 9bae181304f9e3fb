#include "api/runs_impl.h"

#include "api/api.h"
#include "api/caller.h"
#include "api/events.h"
#include "api/exchange.h"
#include "api/keeper.h"
#include "api/metrics.h"
#include "api/run_direct.h"
#include "api/run_dry.h"
#include "api/run_history.h"
#include "api/sandboxes.h"
#include "api/scopes.h"
#include "base/attr.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "policy/tier.h"
#include "session/quota.h"
#include "session/sandbox.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define USER_SIZE 64

static size_t bucket_of(const char *id)
{
	size_t h = 5381;

	while (*id)
		h = h * 33 + (unsigned char)*id++;
	return h % RUN_BUCKETS;
}

static bool may_see(const struct viewer *v, const struct run_entry *e)
{
	return v->all || owner_is(&v->owner, &e->record.owner);
}

struct run_entry *run_find(struct runs *r, const struct viewer *v, const char *id)
{
	struct run_entry *e = r->buckets[bucket_of(id)];

	while (e && strcmp(e->record.id, id) != 0)
		e = e->next;
	return e && may_see(v, e) ? e : NULL;
}

const struct run_record *run_entry_record(const struct run_entry *e)
{
	return &e->record;
}

void runs_each(struct runs *r, const struct viewer *v, runs_each_fn *fn, void *ctx)
{
	for (size_t n = 0; n < RUN_BUCKETS; n++)
		for (struct run_entry *e = r->buckets[n]; e; e = e->next)
			if (may_see(v, e))
				fn(ctx, &e->record);
}

static void free_job(struct run_entry *e)
{
	if (e->job && e->on)
		sandbox_job_free(e->on, e->job);
	else
		job_free(e->job);
	e->job = NULL;
}

static void entry_free(struct run_entry *e)
{
	struct run_entry **at = &e->runs->buckets[bucket_of(e->record.id)];

	while (*at && *at != e)
		at = &(*at)->next;
	if (*at) {
		*at = e->next;
		e->runs->n_active--;
	}
	run_unwait(e);
	free_job(e);
	if (e->held)
		sandbox_release(e->held);
	job_order_done(&e->order);
	request_body_free(e->body);
	run_stream_done(&e->stream);
	free(e);
}

static void entry_enter(struct run_entry *e)
{
	struct run_entry **bucket = &e->runs->buckets[bucket_of(e->record.id)];

	e->next = *bucket;
	*bucket = e;
	e->runs->n_active++;
}

static void on_started(struct job *j)
{
	struct run_entry *e = job_ctx(j);

	run_stream_start(&e->stream, job_id(j), job_isolation(j));
}

static bool on_output(struct job *j, enum stream s, const char *data, size_t len)
{
	struct run_entry *e = job_ctx(j);

	return run_stream_output(&e->stream, s, data, len);
}

static void on_shown(struct job *j, const char *what, const struct json *data)
{
	struct run_entry *e = job_ctx(j);

	run_stream_tell(&e->stream, what, data);
}

static void fill_record(struct run_record *r, const struct result *res, const struct cay_error *err)
{
	r->under_way = false;
	r->ended_ms = clock_wall_ms();
	if (!res) {
		r->status = STATUS_SANDBOX_ERROR;
		r->message = err->text;
		return;
	}
	r->status = res->status;
	r->exited = res->exited;
	r->exit_code = res->exit_code;
	r->signal = res->signal;
	r->message = res->message;
	r->wall_ms = res->usage.wall_ms;
	r->cpu_ms = isnan(res->usage.cpu_ms) ? 0 : res->usage.cpu_ms;
	r->memory_peak_bytes = res->usage.memory_peak_bytes;
}

static void note_too_long(struct run_entry *e)
{
	const char *message = e->record.message;

	(void)snprintf(e->message, sizeof(e->message),
		       "%s%sits result is not kept: it has more than %u MiB", message,
		       message[0] ? "; " : "", RUN_RESULT_MAX >> 20);
	e->record.message = e->message;
}

/* What is told to whoever waited is not kept as well: only what nobody waited for. */
static void remember(struct run_entry *e, const struct json *j)
{
	_cleanup_(buf_done) struct buf text = BUF(RUN_RESULT_MAX);
	struct cay_error err;
	int r;

	r = e->record.background ? json_text(j, &text) : 0;
	if (e->record.background && r == 0)
		e->record.result = buf_str(&text);
	else if (r == -EFBIG)
		note_too_long(e);
	if (store_run_put(e->runs->api->store, &e->record, &err) < 0)
		log_error(err.text, "run", e->record.id);
	e->record.result_kept = e->record.result != NULL;
	e->record.result = NULL;
	keeper_trim(e->runs->api);
}

static void account(struct run_entry *e, const struct result *res)
{
	struct api *api = e->runs->api;
	const struct run_record *r = &e->record;
	/* A sandbox's is counted as a whole: what it leaves running, and terminals, too. */
	bool is_in = e->on && owner_is(&e->on->owner, &r->owner);

	if (e->counted)
		quota_end_run(api->quota, &r->owner, is_in ? 0 : r->cpu_ms, clock_now_ms());
	if (e->counted)
		runs_serve(api->runs);
	metrics_run(api->metrics, r, res ? result_start(res) : NULL);
	if (events_followed(api))
		event_publish(api, "run.ended", &r->owner, run_json(r));
}

void run_conclude(struct run_entry *e, const struct result *res, const struct cay_error *err)
{
	_cleanup_(json_freep) struct json *json =
		res ? result_json(res) : cay_error_json(err, NULL);

	fill_record(&e->record, res, err);
	remember(e, json);
	account(e, res);
	run_stream_end(&e->stream, res ? "result" : "error", json, err);
	if (e->ended)
		e->ended(e->ctx, take_ptr(&json), res ? NULL : err);
	entry_free(e);
}

static void on_ended(struct job *j, const struct result *res, const struct cay_error *err)
{
	run_conclude(job_ctx(j), res, err);
}

/* Nobody hears of its start or its output: fewer messages. */
static const struct job_events quiet = {.ended = on_ended};
static const struct job_events told = {
	.started = on_started, .output = on_output, .shown = on_shown, .ended = on_ended};

static void on_drained(void *ctx, enum stream s)
{
	struct run_entry *e = ctx;

	if (e->job)
		job_resume(e->job, s);
}

static void cancel(struct run_entry *e)
{
	if (e->job)
		job_cancel(e->job, CAUSE_CANCELLED, 0);
	else
		run_drop(e, NULL);
}

void run_leave(struct run_entry *e)
{
	e->ended = NULL;
	cancel(e);
}

/* The one who asked for it went away. */
static void on_left(void *ctx)
{
	struct run_entry *e = ctx;

	if (!e->record.background)
		run_leave(e);
}

static struct run_entry *entry_new(struct runs *r, const struct run_ask *ask)
{
	struct run_entry *e = calloc(1, sizeof(*e));

	if (!e)
		return NULL;
	e->runs = r;
	e->peer = -1;
	e->order.script = SCRIPT_NONE;
	e->quotas = ask->caller->quotas;
	e->told = ask->told || ask->body->background;
	e->ended = ask->ended;
	e->ctx = ask->ctx;
	e->stream = (struct run_stream){.ctx = e, .drained = on_drained, .left = on_left};
	e->record = (struct run_record){
		.owner = ask->caller->viewer.owner,
		.under_way = true,
		.started_ms = clock_wall_ms(),
		.background = ask->body->background,
	};
	if (ask->on) {
		memcpy(e->sandbox, ask->on->id, sizeof(e->sandbox));
		e->record.sandbox = e->sandbox;
	}
	return e;
}

/* 0: any. */
static uint64_t cpu_left_ms(struct api *api, const struct owner *o, const struct key_quotas *quotas)
{
	int64_t left = quota_cpu_left_ms(api->quota, o, quotas, clock_now_ms());

	return left < INT64_MAX ? (uint64_t)left : 0;
}

/* body is taken over. */
static int make_order(struct api *api, const struct run_ask *ask, const struct decision *decision,
		      struct job_order *ret, struct cay_error *err)
{
	const struct caller *c = ask->caller;
	struct settings s = caller_settings(c, &api->settings);
	uint64_t left_ms = cpu_left_ms(api, &c->viewer.owner, &c->quotas);
	int r;

	if (ask->on) {
		r = sandbox_order(ask->on, ask->body, left_ms, ret, err);
		ret->decision = *decision;
		return r;
	}
	if (left_ms && (s.maximum.cpu_time_ms == 0 || left_ms < s.maximum.cpu_time_ms))
		s.maximum.cpu_time_ms = left_ms;
	r = job_order_make(ret, &s, ask->body, NULL, err);
	ret->settings = &api->settings; /* ours are gone in a moment */
	run_direct_order(decision, ask->peer, ret);
	return r;
}

/* ask's body is taken over. */
static int prepare(struct run_entry *e, const struct run_ask *ask, struct cay_error *err)
{
	struct job_order *o = &e->order;

	if (ask->on) {
		char *id = ask->body->spec.own;

		e->body = ask->body;
		if (id_make("run", id) < 0)
			return cay_fail(err, CAY_E_INTERNAL, errno, "name the command");
		memcpy(e->record.id, id, sizeof(e->record.id));
		return 0;
	}
	if (make_order(e->runs->api, ask, &e->decision, o, err) < 0)
		return -1;
	memcpy(e->record.id, o->plan->id, sizeof(e->record.id));
	run_direct_log(o, ask->peer, e->record.id);
	return 0;
}

/* It may have ended while the run waited. */
static int enter_sandbox(struct run_entry *e, struct cay_error *err)
{
	const struct viewer v = {.owner = e->record.owner, .all = true};
	struct api *api = e->runs->api;
	double queued_ms = e->order.queued_ms;
	int r;

	e->on = sandbox_find(api->sandboxes, &v, e->sandbox, err);
	if (!e->on)
		return -1;
	r = sandbox_order(e->on, take_ptr(&e->body), cpu_left_ms(api, &e->record.owner, &e->quotas),
			  &e->order, err);
	e->order.queued_ms = queued_ms;
	e->order.decision = e->decision;
	return r;
}

int run_begin(struct run_entry *e, struct cay_error *err)
{
	const struct job_events *events = e->told ? &told : &quiet;
	struct job_order *o = &e->order;
	struct api *api = e->runs->api;

	if (e->body && enter_sandbox(e, err) < 0)
		return -1;
	o->may_ask = e->told;
	o->streamed = e->told && !e->record.background;
	e->record.language = o->has_runtime ? o->runtime.language->name : NULL;
	e->record.waits = false;
	e->job = e->on ? sandbox_start(e->on, o, events, e, err)
		       : job_start(&api->place, NULL, o, events, e, err);
	if (e->job && events_followed(api))
		event_publish(api, "run.started", &e->record.owner, run_json(&e->record));
	return e->job ? 0 : -1;
}

/* The caller was told its id: it must be known from here on, whatever happens. */
static int promise(struct api *api, struct run_entry *e, struct cay_error *err)
{
	return e->record.background ? store_run_put(api->store, &e->record, err) : 0;
}

static int check(struct api *api, const struct run_ask *ask, struct decision *ret,
		 struct cay_error *err)
{
	struct settings settings;

	if (api->draining)
		return cay_fail(err, CAY_E_AT_CAPACITY, 0, "the daemon is ending");
	if (run_decide(api, ask, ret, err) < 0)
		return -1;
	if (bounds_check(&ask->caller->bounds, &ask->body->spec, err) < 0)
		return -1;
	settings = caller_settings(ask->caller, &api->settings);
	return tier_check_limits(&ask->body->spec, &settings, err);
}

/* A scope's sandbox may not idle out while a run waits that was promised it. */
static void hold(struct run_entry *e, struct sandbox *s)
{
	sandbox_hold(s);
	e->held = s;
}

/* It begins, or waits for that. */
static int set_out(struct api *api, struct run_entry *e, const struct run_ask *ask,
		   struct cay_error *err)
{
	if (prepare(e, ask, err) < 0 || (e->wait_ms ? run_wait(e, err) : run_begin(e, err)) < 0)
		return -1;
	return promise(api, e, err);
}

struct run_entry *run_start(struct api *api, const struct run_ask *asked, int64_t *ret_retry_s,
			    struct cay_error *err)
{
	const struct owner *o = &asked->caller->viewer.owner;
	struct run_ask with = *asked, *ask = &with;
	struct run_entry *e = NULL;
	struct decision decision;
	uint64_t wait_ms;

	*ret_retry_s = 1;
	if (check(api, ask, &decision, err) < 0 || scope_enter(api, ask, err) < 0 ||
	    run_admit(api, ask, &wait_ms, ret_retry_s, err) < 0) {
		request_body_free(ask->body);
		return NULL;
	}
	e = entry_new(api->runs, ask);
	if (!e) {
		request_body_free(ask->body);
		(void)cay_fail(err, CAY_E_INTERNAL, ENOMEM, "start the run");
	} else {
		e->wait_ms = wait_ms;
		if (ask->body->scope)
			hold(e, ask->on);
		e->bytes = ask->bytes;
		e->counted = wait_ms == 0;
		e->decision = decision;
		if (set_out(api, e, ask, err) == 0) {
			entry_enter(e);
			return e;
		}
		entry_free(e);
	}
	if (wait_ms == 0)
		quota_end_run(api->quota, o, 0, clock_now_ms());
	return NULL;
}

void run_follow(struct run_entry *e, struct exchange *x)
{
	run_stream_add(&e->stream, x, false);
	run_tell_waiting(e);
}

/* A plain request that waits for its result. */
struct waiting {
	struct exchange *x;
	struct run_entry *run;
};

static void on_close(struct exchange *x, enum exchange_end how _unused_)
{
	struct waiting *w = exchange_ctx(x);

	if (w)
		run_leave(w->run);
	free(w);
}

static const struct exchange_events waiting_events = {.on_close = on_close};

static void answer_result(void *ctx, struct json *result, const struct cay_error *err)
{
	struct waiting *w = ctx;

	exchange_watch(w->x, NULL, NULL);
	if (err)
		exchange_fail(w->x, err);
	else
		exchange_respond_json(w->x, 200, result);
	json_free(result);
	free(w);
}

static int wait_for(struct exchange *x, struct run_ask *ask, int64_t *retry_s,
		    struct cay_error *err)
{
	struct waiting *w = calloc(1, sizeof(*w));

	if (!w) {
		request_body_free(ask->body);
		return cay_fail(err, CAY_E_INTERNAL, ENOMEM, "start the run");
	}
	ask->ended = answer_result;
	ask->ctx = w;
	*w = (struct waiting){.x = x, .run = run_start(api_of(x), ask, retry_s, err)};
	if (!w->run) {
		free(w);
		return -1;
	}
	exchange_set_target(x, w->run->record.id);
	exchange_watch(x, &waiting_events, w);
	return 0;
}

static int start_told(struct exchange *x, struct run_ask *ask, int64_t *retry_s,
		      struct cay_error *err)
{
	bool background = ask->body->background;
	struct run_entry *e = run_start(api_of(x), ask, retry_s, err);

	if (!e)
		return -1;
	exchange_set_target(x, e->record.id);
	if (background) {
		_cleanup_(json_freep) struct json *j = run_json(&e->record);

		exchange_respond_json(x, 202, j);
	} else {
		run_stream_add(&e->stream, x, true);
		run_tell_waiting(e);
	}
	return 0;
}

static int answer_dry(struct exchange *x, struct run_ask *ask, struct cay_error *err)
{
	_cleanup_(json_freep) struct json *j = NULL;
	struct job_order order = {.script = SCRIPT_NONE};
	struct decision decision;
	char user[USER_SIZE] = "";
	int r;

	if (check(api_of(x), ask, &decision, err) < 0 ||
	    scope_enter_dry(api_of(x), ask, &decision, &j, err) < 0) {
		request_body_free(ask->body);
		return -1;
	}
	if (j) {
		request_body_free(ask->body);
		exchange_respond_json(x, 200, j);
		return 0;
	}
	r = make_order(api_of(x), ask, &decision, &order, err);
	if (r == 0 && !order.engine->sandboxed)
		r = run_direct_user(api_of(x), ask->peer, user, sizeof(user), err);
	if (r == 0) {
		j = run_dry_json(&order, user);
		exchange_respond_json(x, 200, j);
	}
	job_order_done(&order);
	return r;
}

void run_answer(struct exchange *x, struct request_body *body, struct sandbox *on)
{
	bool events = exchange_wants_events(x);
	struct run_ask ask = {.caller = caller_of(x),
			      .peer = exchange_request(x)->peer,
			      .body = body,
			      .on = on,
			      .bytes = exchange_request(x)->body_len,
			      .told = events};
	int64_t retry_s = 1;
	struct cay_error err;
	int r;

	if (body->dry_run)
		r = answer_dry(x, &ask, &err);
	else if (body->background || events)
		r = start_told(x, &ask, &retry_s, &err);
	else
		r = wait_for(x, &ask, &retry_s, &err);
	if (r == 0)
		return;
	exchange_set_retry(x, retry_s);
	exchange_fail(x, &err);
}

static void create(struct exchange *x, struct sandbox *on)
{
	const struct request *q = exchange_request(x);
	enum request_place place = on ? REQUEST_COMMAND : REQUEST_RUN;
	struct request_body *body = calloc(1, sizeof(*body));
	struct cay_error err;

	if (!body) {
		(void)cay_fail(&err, CAY_E_INTERNAL, ENOMEM, "read the request");
	} else if (request_parse(body, place, q->body, q->body_len, &err) == 0) {
		run_answer(x, body, on);
		return;
	} else {
		request_body_free(body);
	}
	exchange_fail(x, &err);
}

static void run_create(struct exchange *x)
{
	create(x, NULL);
}

static void sandbox_run(struct exchange *x)
{
	struct sandbox *s = sandbox_of(x);

	if (s)
		create(x, s);
}

static void run_cancel(struct exchange *x)
{
	const struct viewer *v = &caller_of(x)->viewer;
	const char *id = request_param(exchange_request(x), "id");
	struct run_entry *e = run_find(api_of(x)->runs, v, id);

	exchange_set_target(x, id);
	if (!e) {
		run_history_answer(x, id);
		return;
	}
	cancel(e);
	{
		_cleanup_(json_freep) struct json *j = run_json(&e->record);

		exchange_respond_json(x, 202, j);
	}
}

struct runs *runs_new(struct api *api)
{
	struct runs *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->api = api;
	r->queue = queue_new();
	if (!r->queue) {
		free(r);
		return NULL;
	}
	return r;
}

void runs_free(struct runs *r)
{
	if (!r)
		return;
	for (size_t n = 0; n < RUN_BUCKETS; n++)
		while (r->buckets[n])
			entry_free(r->buckets[n]);
	queue_free(r->queue);
	free(r);
}

size_t runs_active(const struct runs *r)
{
	return r->n_active;
}

void runs_cancel(struct runs *r, const struct viewer *whose)
{
	for (size_t n = 0; n < RUN_BUCKETS; n++)
		for (struct run_entry *e = r->buckets[n], *next; e; e = next) {
			next = e->next; /* one that had not begun is over at once */
			if (whose->all || owner_is(&e->record.owner, &whose->owner))
				cancel(e);
		}
}

const struct route route_run_create = {
	.method = "POST",
	.pattern = "/v1/runs",
	.handle = run_create,
	.flags = ROUTE_CANCELS_ON_FIN,
	.max_body = REQUEST_MAX_BYTES,
	.name = "run.create",
};
const struct route route_sandbox_run = {
	.method = "POST",
	.pattern = "/v1/sandboxes/{id}/runs",
	.handle = sandbox_run,
	.flags = ROUTE_CANCELS_ON_FIN,
	.max_body = REQUEST_MAX_BYTES,
	.name = "sandbox.run",
};
const struct route route_run_cancel = {
	.method = "DELETE", .pattern = "/v1/runs/{id}", .handle = run_cancel, .name = "run.cancel"};
