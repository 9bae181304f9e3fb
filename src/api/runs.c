#include "api/runs.h"

#include "api/api.h"
#include "api/exchange.h"
#include "api/run_stream.h"
#include "api/sandboxes.h"
#include "base/attr.h"
#include "base/json.h"
#include "session/sandbox.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BUCKETS 1024

/* Background runs that are over and still answer for themselves. */
#define FINISHED_MAX 1000

struct run_entry {
	struct run_entry *next;          /* in its bucket */
	struct run_entry *older, *newer; /* among those that are over */
	struct runs *runs;
	char id[ID_SIZE];
	struct job *job;         /* NULL: over */
	struct sandbox *sandbox; /* where it runs; NULL: on an island of its own */
	bool background;
	struct run_stream stream; /* who hears of it */
	struct exchange *waiting; /* for the plain result; NULL */
	uint64_t started_ms;      /* since 1970 */
	struct json *result;      /* or the error, when it is over */
};

struct runs {
	struct api *api;
	struct run_entry *buckets[BUCKETS];
	size_t n_active;
	struct run_entry *oldest, *newest;
	size_t n_finished;
};

static uint64_t now_ms(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static size_t bucket_of(const char *id)
{
	size_t h = 5381;

	while (*id)
		h = h * 33 + (unsigned char)*id++;
	return h % BUCKETS;
}

static struct run_entry *entry_find(struct runs *r, const char *id)
{
	struct run_entry *e = r->buckets[bucket_of(id)];

	while (e && strcmp(e->id, id) != 0)
		e = e->next;
	return e;
}

static void drop_job(struct run_entry *e)
{
	if (e->job && e->sandbox)
		sandbox_job_free(e->sandbox, e->job);
	else
		job_free(e->job);
	e->job = NULL;
}

static void entry_free(struct run_entry *e)
{
	struct run_entry **at = &e->runs->buckets[bucket_of(e->id)];

	while (*at && *at != e)
		at = &(*at)->next;
	if (*at)
		*at = e->next;
	drop_job(e);
	run_stream_done(&e->stream);
	json_free(e->result);
	free(e);
}

static void forget_oldest(struct runs *r)
{
	struct run_entry *e = r->oldest;

	r->oldest = e->newer;
	if (r->oldest)
		r->oldest->older = NULL;
	else
		r->newest = NULL;
	r->n_finished--;
	entry_free(e);
}

static void keep_finished(struct run_entry *e)
{
	struct runs *r = e->runs;

	e->older = r->newest;
	if (r->newest)
		r->newest->newer = e;
	else
		r->oldest = e;
	r->newest = e;
	if (++r->n_finished > FINISHED_MAX)
		forget_oldest(r);
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

static void on_ended(struct job *j, const struct result *res, const struct cay_error *err)
{
	struct run_entry *e = job_ctx(j);
	struct exchange *x = e->waiting;

	e->result = res ? result_json(res) : cay_error_json(err, NULL);
	e->waiting = NULL;
	if (x && res)
		exchange_respond_json(x, 200, e->result);
	else if (x)
		exchange_fail(x, err);
	if (x)
		exchange_watch(x, NULL, NULL);
	run_stream_end(&e->stream, res ? "result" : "error", e->result, err);
	drop_job(e);
	e->runs->n_active--;
	if (e->background)
		keep_finished(e);
	else
		entry_free(e);
}

/* Nobody hears of its start or its output: fewer messages. */
static const struct job_events quiet = {.ended = on_ended};
static const struct job_events told = {
	.started = on_started, .output = on_output, .ended = on_ended};

static void on_drained(void *ctx, enum stream s)
{
	struct run_entry *e = ctx;

	if (e->job)
		job_resume(e->job, s);
}

/* The one who asked for it went away. */
static void on_left(void *ctx)
{
	struct run_entry *e = ctx;

	if (e->job && !e->background)
		job_cancel(e->job, CAUSE_CANCELLED, 0);
}

static void on_close(struct exchange *x, enum exchange_end how)
{
	struct run_entry *e = exchange_ctx(x);

	if (!e || how != EXCHANGE_GONE)
		return;
	e->waiting = NULL;
	on_left(e);
}

static const struct exchange_events waiting_events = {.on_close = on_close};

static struct run_entry *entry_new(struct runs *r)
{
	struct run_entry *e = calloc(1, sizeof(*e));

	if (!e)
		return NULL;
	e->runs = r;
	e->started_ms = now_ms();
	e->stream = (struct run_stream){.ctx = e, .drained = on_drained, .left = on_left};
	return e;
}

static void entry_enter(struct run_entry *e)
{
	struct run_entry **bucket = &e->runs->buckets[bucket_of(e->id)];

	e->next = *bucket;
	*bucket = e;
	e->runs->n_active++;
}

static void answer_id(struct exchange *x, const struct run_entry *e)
{
	_cleanup_(json_freep) struct json *j = json_new_object();

	json_set_str(j, "id", e->id);
	json_set_str(j, "status", "running");
	exchange_respond_json(x, 202, j);
}

/* The order, by the place it is for. body is taken over. */
static int make_order(struct api *api, struct sandbox *s, struct request_body *body,
		      struct job_order *ret, struct cay_error *err)
{
	return s ? sandbox_order(s, body, ret, err)
		 : job_order_make(ret, &api->settings, body, err);
}

static struct job *start(struct run_entry *e, struct job_order *o, const struct job_events *events,
			 struct cay_error *err)
{
	struct api *api = e->runs->api;

	memcpy(e->id, o->plan->id, sizeof(e->id));
	return e->sandbox ? sandbox_start(e->sandbox, o, events, e, err)
			  : job_start(&api->place, NULL, o, events, e, err);
}

static int begin(struct exchange *x, struct sandbox *s, struct request_body *body,
		 struct cay_error *err)
{
	struct api *api = api_of(x);
	struct run_entry *e = entry_new(api->runs);
	bool background = body->background, events = exchange_wants_events(x) && !background;
	struct job_order order;

	if (!e) {
		request_body_done(body);
		free(body);
		return cay_fail(err, CAY_E_INTERNAL, ENOMEM, "start the run");
	}
	e->background = background;
	e->sandbox = s;
	if (make_order(api, s, body, &order, err) == 0)
		e->job = start(e, &order, events || background ? &told : &quiet, err);
	if (!e->job) {
		job_order_done(&order);
		free(e);
		return -1;
	}
	entry_enter(e);
	if (background) {
		answer_id(x, e);
	} else if (events) {
		run_stream_add(&e->stream, x, true);
	} else {
		e->waiting = x;
		exchange_watch(x, &waiting_events, e);
	}
	return 0;
}

static void create(struct exchange *x, struct sandbox *s)
{
	const struct request *q = exchange_request(x);
	struct request_body *body = calloc(1, sizeof(*body));
	struct cay_error err;
	int r;

	if (!body)
		r = cay_fail(&err, CAY_E_INTERNAL, ENOMEM, "read the request");
	else if (api_check_open(x, &err) < 0)
		r = -1;
	else
		r = request_parse(body, s ? REQUEST_COMMAND : REQUEST_RUN, q->body, q->body_len,
				  &err);
	if (r == 0) {
		r = begin(x, s, body, &err); /* which takes the body over */
	} else if (body) {
		request_body_done(body);
		free(body);
	}
	if (r < 0)
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

static struct run_entry *find_or_fail(struct exchange *x)
{
	const char *id = request_param(exchange_request(x), "id");
	struct run_entry *e = entry_find(api_of(x)->runs, id);
	struct cay_error err;

	if (!e) {
		(void)cay_fail(&err, CAY_E_NOT_FOUND, 0, "there is no run %.64s", id);
		exchange_fail(x, &err);
	}
	return e;
}

static struct json *summary(const struct run_entry *e)
{
	struct json *j = json_new_object();

	json_set_str(j, "id", e->id);
	json_set_str(j, "status", e->job ? "running" : "ended");
	json_set_int(j, "started", (int64_t)e->started_ms);
	return j;
}

static void run_get(struct exchange *x)
{
	struct run_entry *e = find_or_fail(x);
	struct json *j;

	if (!e)
		return;
	if (e->result) {
		exchange_respond_json(x, 200, e->result);
		return;
	}
	j = summary(e);
	exchange_respond_json(x, 200, j);
	json_free(j);
}

static void run_cancel(struct exchange *x)
{
	struct run_entry *e = find_or_fail(x);
	struct json *j;

	if (!e)
		return;
	if (e->job)
		job_cancel(e->job, CAUSE_CANCELLED, 0);
	j = summary(e);
	exchange_respond_json(x, e->job ? 202 : 200, j);
	json_free(j);
}

static void run_events(struct exchange *x)
{
	struct run_entry *e = find_or_fail(x);

	if (!e)
		return;
	run_stream_add(&e->stream, x, false);
	if (e->result)
		run_stream_end(&e->stream, "result", e->result, NULL);
}

static void run_list(struct exchange *x)
{
	struct runs *r = api_of(x)->runs;
	_cleanup_(json_freep) struct json *j = json_new_object();
	struct json *list = json_new_array();

	for (size_t n = 0; n < BUCKETS; n++)
		for (struct run_entry *e = r->buckets[n]; e; e = e->next)
			json_add(list, summary(e));
	json_set(j, "runs", list);
	exchange_respond_json(x, 200, j);
}

struct runs *runs_new(struct api *api)
{
	struct runs *r = calloc(1, sizeof(*r));

	if (r)
		r->api = api;
	return r;
}

void runs_free(struct runs *r)
{
	if (!r)
		return;
	for (size_t n = 0; n < BUCKETS; n++)
		while (r->buckets[n])
			entry_free(r->buckets[n]);
	free(r);
}

size_t runs_active(const struct runs *r)
{
	return r->n_active;
}

void runs_cancel_all(struct runs *r)
{
	for (size_t n = 0; n < BUCKETS; n++)
		for (struct run_entry *e = r->buckets[n]; e; e = e->next)
			if (e->job)
				job_cancel(e->job, CAUSE_CANCELLED, 0);
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
const struct route route_run_list = {
	.method = "GET", .pattern = "/v1/runs", .handle = run_list, .name = "run.list"};
const struct route route_run_get = {
	.method = "GET", .pattern = "/v1/runs/{id}", .handle = run_get, .name = "run.get"};
const struct route route_run_cancel = {
	.method = "DELETE", .pattern = "/v1/runs/{id}", .handle = run_cancel, .name = "run.cancel"};
const struct route route_run_events = {.method = "GET",
				       .pattern = "/v1/runs/{id}/events",
				       .handle = run_events,
				       .name = "run.events"};
