/*
 * All of it happens in one turn of the loop, from looking for the sandbox to entering it into the
 * list, so two runs at once can't make two.
 */
#include "api/scopes.h"

#include "api/api.h"
#include "api/caller.h"
#include "api/events.h"
#include "api/exchange.h"
#include "api/run_dry.h"
#include "api/runs.h"
#include "base/attr.h"
#include "base/json.h"
#include "core/decision.h"
#include "policy/bounds.h"
#include "policy/scope.h"
#include "session/quota.h"
#include "session/sandbox.h"

#include <errno.h>
#include <stdlib.h>

/* Whose the sandbox is, and what it is made within. */
struct scope_place {
	bool everybody;
	struct owner owner;
	struct key_quotas quotas;
	struct settings settings; /* borrows from the api's and the caller's */
	struct settings callers;  /* the same for who asks, which differs for everybody's */
};

static struct scope_place place_of(const struct api *api, const struct run_ask *ask)
{
	const struct caller *c = ask->caller;
	struct scope_place p = {
		.everybody = scope_of(&api->settings, ask->body)->everybody,
		.owner = c->viewer.owner,
		.quotas = c->quotas,
		.callers = caller_settings(c, &api->settings),
	};

	p.settings = p.callers;
	if (p.everybody) {
		p.owner = OWNER_EVERYBODY;
		p.quotas = (struct key_quotas){0};
		p.settings = api->settings;
	}
	return p;
}

static void on_made(void *ctx, struct sandbox *s, const struct cay_error *err)
{
	struct api *api = ctx;

	if (!err && events_followed(api))
		event_publish(api, "sandbox.created", &s->owner, sandbox_json(s));
}

static int make_body(const struct scope_place *p, const struct run_ask *ask,
		     struct request_body **ret, struct cay_error *err)
{
	static const struct bounds none = {0};
	struct request_body *body = calloc(1, sizeof(*body));

	if (!body)
		return cay_fail(err, CAY_E_INTERNAL, ENOMEM, "make the scope's sandbox");
	if (scope_request(&p->settings, ask->body, p->everybody, body, err) < 0 ||
	    bounds_check(p->everybody ? &none : &ask->caller->bounds, &body->spec, err) < 0) {
		request_body_free(body);
		return -1;
	}
	*ret = body;
	return 0;
}

static struct sandbox *make(struct api *api, const struct scope_place *p, const struct run_ask *ask,
			    struct cay_error *err)
{
	struct request_body *body = NULL;
	int64_t unused;

	if (make_body(p, ask, &body, err) < 0)
		return NULL;
	if (quota_take_sandbox(api->quota, &p->owner, &p->quotas, &unused, err) < 0) {
		request_body_free(body);
		return NULL;
	}
	if (sandbox_create(api->sandboxes, &p->owner, &p->settings, body, on_made, api, err) < 0) {
		quota_end_sandbox(api->quota, &p->owner);
		return NULL;
	}
	return sandbox_of_scope(api->sandboxes, &p->owner, ask->body->scope);
}

/* What a command has of its own, also where the scope's sandbox is there already. */
static int check_command(const struct api *api, const struct run_ask *ask, struct cay_error *err)
{
	const char *scope = ask->on ? ask->on->body->scope : ask->body->scope;

	return scope ? scope_check_command(&api->settings, scope, &ask->body->spec.limits, err) : 0;
}

int scope_enter(struct api *api, struct run_ask *ask, struct cay_error *err)
{
	struct scope_place p;
	struct sandbox *s;

	if (check_command(api, ask, err) < 0)
		return -1;
	if (!ask->body->scope)
		return 0;
	p = place_of(api, ask);
	s = sandbox_of_scope(api->sandboxes, &p.owner, ask->body->scope);
	if (!s)
		s = make(api, &p, ask, err);
	if (!s ||
	    sandbox_check_scope(s, &ask->caller->viewer.owner, &p.callers, ask->body, err) < 0)
		return -1;
	spec_leave_place(&ask->body->spec);
	ask->on = s;
	return 0;
}

int scope_enter_dry(struct api *api, struct run_ask *ask, const struct decision *decision,
		    struct json **ret_json, struct cay_error *err)
{
	struct request_body *body = NULL;
	struct plan *plan = NULL;
	struct scope_place p;

	*ret_json = NULL;
	if (check_command(api, ask, err) < 0)
		return -1;
	if (!ask->body->scope)
		return 0;
	p = place_of(api, ask);
	if (sandbox_of_scope(api->sandboxes, &p.owner, ask->body->scope))
		return scope_enter(api, ask, err);
	if (make_body(&p, ask, &body, err) < 0)
		return -1;
	if (sandbox_plan(api->sandboxes, &p.owner, &p.settings, body, &plan, err) == 0)
		*ret_json = sandbox_dry_json(plan, body->spec.image, decision);
	free(plan);
	request_body_free(body);
	return *ret_json ? 0 : -1;
}

static void add_one(void *ctx, struct sandbox *s)
{
	if (s->body->scope)
		json_add(ctx, sandbox_json(s));
}

static void scope_list(struct exchange *x)
{
	const struct viewer viewer = api_viewer(x);
	_cleanup_(json_freep) struct json *j = json_new_object();
	struct json *list = json_new_array();

	sandboxes_each(api_of(x)->sandboxes, &viewer, add_one, list);
	json_set(j, "scopes", list);
	exchange_respond_json(x, 200, j);
}

/* The caller's own; everybody's is an operator's to end. */
static struct sandbox *find(struct exchange *x, const char *scope)
{
	struct api *api = api_of(x);
	const struct viewer *v = &caller_of(x)->viewer;
	const struct owner all = OWNER_EVERYBODY;
	struct sandbox *s = sandbox_of_scope(api->sandboxes, &v->owner, scope);

	return s || !v->all ? s : sandbox_of_scope(api->sandboxes, &all, scope);
}

static void scope_end(struct exchange *x)
{
	const char *scope = request_param(exchange_request(x), "scope");
	_cleanup_(json_freep) struct json *j = NULL;
	enum scope_kind kind;
	struct cay_error err;
	struct sandbox *s;

	if (scope_parse(scope, &kind, &err) < 0) {
		exchange_fail(x, &err);
		return;
	}
	s = find(x, scope);
	if (!s) {
		(void)cay_fail(&err, CAY_E_NOT_FOUND, 0, "the scope %.160s has no sandbox", scope);
		exchange_fail(x, &err);
		return;
	}
	exchange_set_target(x, s->id);
	j = json_new_object();
	json_set_str(j, "scope", scope);
	json_set_str(j, "sandbox", s->id);
	json_set_str(j, "state", sandbox_state_name(SANDBOX_GONE));
	sandbox_end(s, "its scope was ended");
	exchange_respond_json(x, 200, j);
}

const struct route route_scope_list = {
	.method = "GET", .pattern = "/v1/scopes", .handle = scope_list, .name = "scope.list"};
const struct route route_scope_end = {.method = "DELETE",
				      .pattern = "/v1/scopes/{scope}",
				      .handle = scope_end,
				      .name = "scope.end"};
