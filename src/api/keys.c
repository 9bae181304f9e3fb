#include "api/keys.h"

#include "api/api.h"
#include "api/caller.h"
#include "api/exchange.h"
#include "api/paging.h"
#include "api/runs.h"
#include "api/server.h"
#include "base/attr.h"
#include "base/clock.h"
#include "base/json.h"
#include "session/sandbox.h"
#include "store/key_request.h"
#include "store/keys.h"

#include <stdio.h>
#include <string.h>

static void set_time(struct json *j, const char *name, int64_t ms)
{
	if (ms)
		json_set_int(j, name, ms);
	else
		json_set_null(j, name);
}

static struct json *quotas_json(const struct key_quotas *q)
{
	struct json *j = json_new_object();

	json_set_int(j, "parallel_runs", q->parallel_runs);
	json_set_int(j, "runs_per_minute", q->runs_per_minute);
	json_set_int(j, "live_sandboxes", q->live_sandboxes);
	json_set_int(j, "cpu_seconds_per_day", q->cpu_seconds_per_day);
	return j;
}

/* It was checked when it was kept. */
static struct json *bounds_json(const char *text)
{
	struct json_fault fault;
	struct json *j;

	if (!text || json_parse(text, strlen(text), BOUNDS_MAX_BYTES, &j, &fault) < 0)
		return json_new_object();
	return j;
}

static struct json *key_json(const struct key_record *k)
{
	struct json *j = json_new_object();

	json_set_str(j, "id", k->id);
	json_set_str(j, "name", k->name);
	json_set_str(j, "shown", k->shown);
	json_set_str(j, "tier", k->tier);
	json_set(j, "quotas", quotas_json(&k->quotas));
	json_set(j, "bounds", bounds_json(k->bounds));
	set_time(j, "created", k->created_ms);
	set_time(j, "revoked", k->revoked_ms);
	set_time(j, "last_used", k->last_used_ms);
	return j;
}

static void key_create(struct exchange *x)
{
	const struct request *q = exchange_request(x);
	_cleanup_(key_record_done) struct key_record k = {0};
	_cleanup_(json_freep) struct json *j = NULL;
	char key[KEY_SIZE];
	struct cay_error err;

	if (!caller_is_operator(x))
		return;
	if (key_request_parse(&k, q->body, q->body_len, &err) < 0 ||
	    store_key_create(api_of(x)->store, &k, key, clock_wall_ms(), &err) < 0) {
		exchange_fail(x, &err);
		return;
	}
	exchange_set_target(x, k.id);
	exchange_header(x, "Cache-Control", "no-store");
	j = key_json(&k);
	json_set_str(j, "key", key);
	key_wipe(key);
	exchange_respond_json(x, 201, j);
}

static void add(void *ctx, const struct key_record *k)
{
	json_add(ctx, key_json(k));
}

static void key_list(struct exchange *x)
{
	const char *all = request_query(exchange_request(x), "revoked");
	struct json *list;
	struct page page;
	struct cay_error err;

	if (!caller_is_operator(x))
		return;
	list = json_new_array();
	if (paging_read(x, &page, &err) == 0 &&
	    store_keys_list(api_of(x)->store, all && strcmp(all, "true") == 0, &page, add, list,
			    &err) == 0) {
		paging_answer(x, "keys", list, &page);
		return;
	}
	json_free(list);
	exchange_fail(x, &err);
}

static bool is_callers(const void *owner, const void *caller)
{
	return owner_is(owner, &((const struct caller *)caller)->viewer.owner);
}

static void retire(void *ctx _unused_, struct sandbox *s)
{
	sandbox_retire(s, "its key was revoked");
}

/* Nothing that its holder began goes on, and nobody is left listening. */
static void end_all(struct api *api, const char *id)
{
	struct viewer holder = {.owner = {.kind = OWNER_KEY}};

	(void)snprintf(holder.owner.key, sizeof(holder.owner.key), "%s", id);
	runs_cancel(api->runs, &holder);
	sandboxes_each(api->sandboxes, &holder, retire, NULL);
	server_break(api->server, is_callers, &holder.owner);
}

static void key_revoke(struct exchange *x)
{
	const char *id = request_param(exchange_request(x), "id");
	struct cay_error err;

	if (!caller_is_operator(x))
		return;
	exchange_set_target(x, id);
	if (store_key_revoke(api_of(x)->store, id, clock_wall_ms(), &err) < 0) {
		exchange_fail(x, &err);
		return;
	}
	end_all(api_of(x), id);
	exchange_respond(x, 204, NULL, NULL, 0);
}

const struct route route_key_create = {
	.method = "POST",
	.pattern = "/v1/keys",
	.handle = key_create,
	.max_body = KEY_REQUEST_MAX_BYTES,
	.flags = ROUTE_ANSWERS_SECRET,
	.name = "key.create",
};
const struct route route_key_list = {
	.method = "GET", .pattern = "/v1/keys", .handle = key_list, .name = "key.list"};
const struct route route_key_revoke = {
	.method = "DELETE", .pattern = "/v1/keys/{id}", .handle = key_revoke, .name = "key.revoke"};
