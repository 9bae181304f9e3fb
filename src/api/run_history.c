#include "api/run_history.h"

#include "api/api.h"
#include "api/caller.h"
#include "api/exchange.h"
#include "api/paging.h"
#include "api/runs.h"
#include "base/attr.h"
#include "base/json.h"

#include <string.h>

static void set_end(struct json *j, const struct run_record *r)
{
	struct json *usage = json_new_object();

	json_set_int(j, "ended", r->ended_ms);
	json_set_str(j, "message", r->message ? r->message : "");
	if (r->exited)
		json_set_int(j, "exit_code", r->exit_code);
	else
		json_set_null(j, "exit_code");
	if (r->signal)
		json_set_int(j, "signal", r->signal);
	else
		json_set_null(j, "signal");
	json_set_real(usage, "wall_ms", r->wall_ms);
	json_set_real(usage, "cpu_ms", r->cpu_ms);
	json_set_int(usage, "memory_peak_bytes", (int64_t)r->memory_peak_bytes);
	json_set(j, "usage", usage);
	if (r->background)
		json_set_bool(j, "result_kept", r->result_kept);
}

struct json *run_json(const struct run_record *r)
{
	struct json *j = json_new_object();
	char owner[OWNER_SIZE];

	json_set_str(j, "id", r->id);
	json_set_str(j, "status",
		     !r->under_way ? status_name(r->status)
		     : r->waits    ? "queued"
				   : "running");
	json_set_str(j, "owner", owner_text(&r->owner, owner));
	json_set_str(j, "sandbox", r->sandbox);
	json_set_str(j, "language", r->language);
	json_set_bool(j, "background", r->background);
	json_set_int(j, "started", r->started_ms);
	if (!r->under_way)
		set_end(j, r);
	return j;
}

struct found {
	struct json *json;  /* the kept result, or what is known of it */
	struct json *error; /* why it did not begin, as whoever followed it was told; or NULL */
};

static void found_done(struct found *f)
{
	json_free(f->json);
	json_free(f->error);
}

static void take_found(void *ctx, const struct run_record *r)
{
	struct found *f = ctx;
	struct json *kept = NULL;
	struct json_fault fault;

	if (r->result &&
	    json_parse(r->result, strlen(r->result), RUN_RESULT_MAX, &kept, &fault) == 0 &&
	    !json_get(kept, "error")) {
		f->json = kept;
		return;
	}
	f->json = run_json(r);
	if (!kept)
		return;
	f->error = kept;
	json_set(f->json, "error", json_share(json_get(kept, "error")));
}

static int find(struct exchange *x, const char *id, struct found *ret, struct cay_error *err)
{
	*ret = (struct found){0};
	return store_run_get(api_of(x)->store, &caller_of(x)->viewer, id, take_found, ret, err);
}

void run_history_answer(struct exchange *x, const char *id)
{
	_cleanup_(found_done) struct found f;
	struct cay_error err;

	if (find(x, id, &f, &err) < 0)
		exchange_fail(x, &err);
	else
		exchange_respond_json(x, 200, f.json);
}

static void run_get(struct exchange *x)
{
	const char *id = request_param(exchange_request(x), "id");
	struct run_entry *e = run_find(api_of(x)->runs, &caller_of(x)->viewer, id);

	if (e) {
		_cleanup_(json_freep) struct json *j = run_json(run_entry_record(e));

		exchange_respond_json(x, 200, j);
	} else {
		run_history_answer(x, id);
	}
}

static void run_events(struct exchange *x)
{
	const char *id = request_param(exchange_request(x), "id");
	struct run_entry *e = run_find(api_of(x)->runs, &caller_of(x)->viewer, id);
	_cleanup_(found_done) struct found f = {0};
	struct cay_error err;

	if (e) {
		run_follow(e, x);
		return;
	}
	if (find(x, id, &f, &err) < 0) {
		exchange_fail(x, &err);
		return;
	}
	if (f.error)
		(void)exchange_event(x, "error", f.error);
	else
		(void)exchange_event(x, "result", f.json);
	exchange_end(x);
}

struct listing {
	struct exchange *x;
	const char *sandbox; /* only of this one; NULL */
	struct json *list;
};

static bool is_wanted(const struct listing *l, const struct run_record *r)
{
	return !l->sandbox || (r->sandbox && strcmp(r->sandbox, l->sandbox) == 0);
}

static void add_active(void *ctx, const struct run_record *r)
{
	struct listing *l = ctx;

	if (is_wanted(l, r))
		json_add(l->list, run_json(r));
}

/* Those under way were listed already, from memory. */
static void add_stored(void *ctx, const struct run_record *r)
{
	struct listing *l = ctx;

	if (!r->under_way)
		json_add(l->list, run_json(r));
}

static void run_list(struct exchange *x)
{
	struct api *api = api_of(x);
	const struct viewer *v = &caller_of(x)->viewer;
	struct listing l = {.x = x, .sandbox = request_query(exchange_request(x), "sandbox")};
	struct page page;
	struct cay_error err;
	int r = paging_read(x, &page, &err);

	l.list = json_new_array();
	if (r == 0 && !page.cursor[0])
		runs_each(api->runs, v, add_active, &l);
	if (r == 0)
		r = store_runs_list(api->store, v, l.sandbox, &page, add_stored, &l, &err);
	if (r == 0) {
		paging_answer(x, "runs", l.list, &page);
		return;
	}
	json_free(l.list);
	exchange_fail(x, &err);
}

const struct route route_run_list = {
	.method = "GET", .pattern = "/v1/runs", .handle = run_list, .name = "run.list"};
const struct route route_run_get = {
	.method = "GET", .pattern = "/v1/runs/{id}", .handle = run_get, .name = "run.get"};
const struct route route_run_events = {.method = "GET",
				       .pattern = "/v1/runs/{id}/events",
				       .handle = run_events,
				       .flags = ROUTE_STREAMS_ANSWER,
				       .name = "run.events"};
