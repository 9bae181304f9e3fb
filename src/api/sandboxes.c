#include "api/sandboxes.h"

#include "api/api.h"
#include "api/caller.h"
#include "api/events.h"
#include "api/exchange.h"
#include "api/run_dry.h"
#include "base/attr.h"
#include "base/clock.h"
#include "base/json.h"
#include "policy/mode.h"
#include "session/quota.h"
#include "session/sandbox.h"
#include "spec/fields.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct sandbox *sandbox_of(struct exchange *x)
{
	const struct viewer viewer = api_viewer(x);
	struct cay_error err;
	struct sandbox *s = sandbox_find(api_of(x)->sandboxes, &viewer,
					 request_param(exchange_request(x), "id"), &err);

	if (!s)
		exchange_fail(x, &err);
	return s;
}

static void publish(struct exchange *x, const char *event, const struct sandbox *s)
{
	struct api *api = api_of(x);

	if (events_followed(api))
		event_publish(api, event, &s->owner, sandbox_json(s));
}

static void respond(struct exchange *x, int status, const struct sandbox *s)
{
	_cleanup_(json_freep) struct json *j = sandbox_json(s);

	exchange_respond_json(x, status, j);
}

/* An exchange that waits for the launcher: it may go away before the answer comes. */
struct asking {
	struct exchange *x; /* NULL: it went away */
	struct sandbox *sandbox;
	int status;              /* of a good answer */
	struct request_body new; /* PATCH: what else is changed */
	bool has_labels;
};

static void on_close(struct exchange *x, enum exchange_end how _unused_)
{
	struct asking *a = exchange_ctx(x);

	if (a)
		a->x = NULL;
}

static const struct exchange_events asking_events = {.on_close = on_close};

static void on_answer(void *ctx, struct sandbox *s, const struct cay_error *err)
{
	struct asking *a = ctx;

	if (a->x) {
		exchange_set_target(a->x, s->id);
		exchange_watch(a->x, NULL, NULL);
		if (err)
			exchange_fail(a->x, err);
		else
			respond(a->x, a->status, s);
		if (!err && a->status == 201)
			publish(a->x, "sandbox.created", s);
	} else if (a->status == 201 && !err) {
		sandbox_end(s, "its creator went away"); /* nobody knows its id */
	}
	request_body_done(&a->new);
	free(a);
}

static struct asking *asking_new(struct exchange *x, int status, struct cay_error *err)
{
	struct asking *a = calloc(1, sizeof(*a));

	if (!a) {
		(void)cay_fail(err, CAY_E_INTERNAL, ENOMEM, "answer");
		exchange_fail(x, err);
		return NULL;
	}
	*a = (struct asking){.x = x, .status = status};
	exchange_watch(x, &asking_events, a);
	return a;
}

static void refuse(struct exchange *x, struct asking *a, const struct cay_error *err)
{
	exchange_watch(x, NULL, NULL);
	request_body_done(&a->new);
	free(a);
	exchange_fail(x, err);
}

/* Within the caller's bounds and quotas; body is taken over. */
static int begin(struct exchange *x, struct request_body *body, struct asking *a,
		 struct cay_error *err)
{
	struct api *api = api_of(x);
	const struct caller *c = caller_of(x);
	struct settings settings = caller_settings(c, &api->settings);
	const struct owner *o = &c->viewer.owner;
	int64_t retry_s = 1;

	if (api_check_open(x, err) < 0 || bounds_check(&c->bounds, &body->spec, err) < 0 ||
	    quota_take_sandbox(api->quota, o, &c->quotas, &retry_s, err) < 0) {
		request_body_free(body);
		exchange_set_retry(x, retry_s);
		return -1;
	}
	if (sandbox_create(api->sandboxes, o, &settings, body, on_answer, a, err) == 0)
		return 0;
	quota_end_sandbox(api->quota, o);
	return -1;
}

/* What would be made, and nothing of it. */
static void answer_dry(struct exchange *x, struct request_body *body)
{
	struct api *api = api_of(x);
	const struct caller *c = caller_of(x);
	struct settings settings = caller_settings(c, &api->settings);
	_cleanup_(json_freep) struct json *j = NULL;
	struct plan *plan = NULL;
	struct cay_error err;

	if (api_check_open(x, &err) < 0 || bounds_check(&c->bounds, &body->spec, &err) < 0 ||
	    sandbox_plan(api->sandboxes, &c->viewer.owner, &settings, body, &plan, &err) < 0) {
		exchange_fail(x, &err);
	} else {
		const struct decision decision = mode_decision_live(&settings, &body->spec, NULL);

		j = sandbox_dry_json(plan, body->spec.image, &decision);
		exchange_respond_json(x, 200, j);
	}
	free(plan);
	request_body_free(body);
}

struct counting {
	struct api *api;
	struct cay_error *err;
	int r;
};

static void count_one(void *ctx, struct sandbox *s)
{
	struct counting *c = ctx;

	if (c->r == 0)
		c->r = quota_count_sandbox(c->api->quota, &s->owner, c->err);
}

int sandboxes_count(struct api *api, struct cay_error *err)
{
	const struct viewer everybody = {.all = true};
	struct counting c = {.api = api, .err = err};

	sandboxes_each(api->sandboxes, &everybody, count_one, &c);
	return c.r;
}

void sandbox_used(void *ctx, const struct sandbox *s, double cpu_ms)
{
	struct api *api = ctx;
	struct cay_error unused;

	(void)quota_add_cpu(api->quota, &s->owner, cpu_ms, clock_now_ms(), &unused);
}

void sandbox_ended(void *ctx, const struct sandbox *s, const char *reason)
{
	struct api *api = ctx;
	struct json *j;

	quota_end_sandbox(api->quota, &s->owner);
	if (!events_followed(api))
		return;
	j = json_new_object();
	json_set_str(j, "id", s->id);
	json_set_str(j, "reason", reason);
	event_publish(api, "sandbox.ended", &s->owner, j);
}

static void sandbox_create_handle(struct exchange *x)
{
	const struct request *q = exchange_request(x);
	struct request_body *body = calloc(1, sizeof(*body));
	struct cay_error err;
	struct asking *a;

	if (!body) {
		(void)cay_fail(&err, CAY_E_INTERNAL, ENOMEM, "read the request");
		exchange_fail(x, &err);
		return;
	}
	if (request_parse(body, REQUEST_SANDBOX, q->body_len ? q->body : "{}",
			  q->body_len ? q->body_len : 2, &err) < 0) {
		request_body_free(body);
		exchange_fail(x, &err);
		return;
	}
	if (body->scope) {
		request_body_free(body);
		(void)cay_fail(&err, CAY_E_INVALID, 0, "scope: goes with a run");
		(void)cay_hint(&err, "the first run with a scope makes its sandbox");
		exchange_fail(x, &err);
		return;
	}
	if (body->dry_run) {
		answer_dry(x, body);
		return;
	}
	a = asking_new(x, 201, &err);
	if (!a)
		request_body_free(body);
	else if (begin(x, body, a, &err) < 0)
		refuse(x, a, &err);
}

static void list_one(void *ctx, struct sandbox *s)
{
	json_add(ctx, sandbox_json(s));
}

static void sandbox_list_handle(struct exchange *x)
{
	const struct viewer viewer = api_viewer(x);
	_cleanup_(json_freep) struct json *j = json_new_object();
	struct json *list = json_new_array();

	sandboxes_each(api_of(x)->sandboxes, &viewer, list_one, list);
	json_set(j, "sandboxes", list);
	json_set_null(j, "cursor");
	exchange_respond_json(x, 200, j);
}

/* Asks the launcher and answers with the sandbox as it is then. */
static void ask_handle(struct exchange *x, enum service_request_kind kind)
{
	struct sandbox *s = sandbox_of(x);
	struct cay_error err;
	struct asking *a = s ? asking_new(x, 200, &err) : NULL;

	if (a && sandbox_ask(s, kind, on_answer, a, &err) < 0)
		refuse(x, a, &err);
	else if (s && kind != SERVICE_USAGE)
		sandbox_touch(s);
}

static void sandbox_get_handle(struct exchange *x)
{
	struct sandbox *s = sandbox_of(x);

	if (s && s->stands)
		ask_handle(x, SERVICE_USAGE); /* with fresh figures */
	else if (s)
		respond(x, 200, s);
}

static void sandbox_pause_handle(struct exchange *x)
{
	ask_handle(x, SERVICE_FREEZE);
}

static void sandbox_resume_handle(struct exchange *x)
{
	ask_handle(x, SERVICE_THAW);
}

static void sandbox_delete_handle(struct exchange *x)
{
	_cleanup_(json_freep) struct json *j = json_new_object();
	struct sandbox *s = sandbox_of(x);

	if (!s)
		return;
	exchange_set_target(x, s->id);
	json_set_str(j, "id", s->id);
	json_set_str(j, "state", sandbox_state_name(SANDBOX_GONE));
	sandbox_end(s, "deleted");
	exchange_respond_json(x, 200, j);
}

/* Labels replace labels; times count from now. */
static void on_patched(void *ctx, struct sandbox *s, const struct cay_error *err)
{
	struct asking *a = ctx;
	struct strv labels = s->body->labels;

	if (!err && a->has_labels) {
		s->body->labels = a->new.labels;
		a->new.labels = labels;
	}
	if (!err && a->new.ttl_ms)
		s->expires_ms = s->last_used_ms + (int64_t)a->new.ttl_ms;
	if (!err && a->new.idle_timeout_ms)
		s->idle_timeout_ms = a->new.idle_timeout_ms;
	if (!err)
		sandbox_remember(s);
	on_answer(a, s, err);
}

/* As sandbox_change_rules(): 1 also where there are none. */
static int patch_rules(struct sandbox *s, const struct settings *settings, const struct json *j,
		       struct asking *a, struct cay_error *err)
{
	const struct network_spec *new = &a->new.spec.network;
	struct rules_asked asked = {.allow = json_get(j, "allow") ? &new->allow : NULL,
				    .block = json_get(j, "block") ? &new->block : NULL};

	if (json_get(j, "mode"))
		return cay_fail(err, CAY_E_INVALID, 0,
				"network.mode can't be changed: only network.allow and .block");
	if (!asked.allow && !asked.block)
		return 1;
	return sandbox_change_rules(s, settings, &asked, on_patched, a, err);
}

/* Rules replace rules, and all the rest is as it was made. 1: done; 0: a is told. */
static int patch(struct sandbox *s, const struct settings *settings, const struct request *q,
		 struct asking *a, struct cay_error *err)
{
	static const char *const may[] = {"labels", "ttl", "idle_timeout", "network"};
	_cleanup_(json_freep) struct json *j = NULL;
	const struct json *value;
	const char *name;
	void *at = NULL;
	int r = fields_parse(q->body, q->body_len, REQUEST_MAX_BYTES, &j, err);

	while (r == 0 && json_next(j, &at, &name, &value)) {
		bool known = false;

		for (size_t n = 0; n < ARRAY_LEN(may); n++)
			known = known || strcmp(name, may[n]) == 0;
		if (!known)
			return cay_fail(err, CAY_E_INVALID, 0,
					"%.64s can't be changed: only labels, ttl, idle_timeout, "
					"network",
					name);
	}
	if (r == 0)
		r = request_read(&a->new, REQUEST_SANDBOX, j, err);
	a->has_labels = json_get(j, "labels");
	return r < 0 ? r : patch_rules(s, settings, json_get(j, "network"), a, err);
}

static void sandbox_patch_handle(struct exchange *x)
{
	struct settings settings = caller_settings(caller_of(x), &api_of(x)->settings);
	struct sandbox *s = sandbox_of(x);
	struct cay_error err;
	struct asking *a = s ? asking_new(x, 200, &err) : NULL;
	int r;

	if (!a)
		return;
	sandbox_touch(s);
	r = patch(s, &settings, exchange_request(x), a, &err);
	if (r < 0)
		refuse(x, a, &err);
	else if (r == 1)
		on_patched(a, s, NULL);
}

#define ROUTE(m, p, h, n)                                                 \
	{                                                                 \
		.method = (m), .pattern = (p), .handle = (h), .name = (n) \
	}

const struct route route_sandbox_create = {
	.method = "POST",
	.pattern = "/v1/sandboxes",
	.handle = sandbox_create_handle,
	.max_body = REQUEST_MAX_BYTES,
	.name = "sandbox.create",
};
const struct route route_sandbox_list =
	ROUTE("GET", "/v1/sandboxes", sandbox_list_handle, "sandbox.list");
const struct route route_sandbox_get =
	ROUTE("GET", "/v1/sandboxes/{id}", sandbox_get_handle, "sandbox.get");
const struct route route_sandbox_patch =
	ROUTE("PATCH", "/v1/sandboxes/{id}", sandbox_patch_handle, "sandbox.patch");
const struct route route_sandbox_delete =
	ROUTE("DELETE", "/v1/sandboxes/{id}", sandbox_delete_handle, "sandbox.delete");
const struct route route_sandbox_pause =
	ROUTE("POST", "/v1/sandboxes/{id}/pause", sandbox_pause_handle, "sandbox.pause");
const struct route route_sandbox_resume =
	ROUTE("POST", "/v1/sandboxes/{id}/resume", sandbox_resume_handle, "sandbox.resume");
