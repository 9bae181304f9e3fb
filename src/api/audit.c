#include "api/audit.h"

#include "api/api.h"
#include "api/caller.h"
#include "api/exchange.h"
#include "api/paging.h"
#include "base/attr.h"
#include "base/clock.h"
#include "base/http.h"
#include "base/json.h"
#include "base/log.h"
#include "store/audit.h"

#include <stdio.h>

#define PEER_SIZE 80

static const char *peer_text(const struct peer *p, char text[PEER_SIZE])
{
	if (p->local)
		(void)snprintf(text, PEER_SIZE, "pid %d", p->pid);
	else
		(void)snprintf(text, PEER_SIZE, "%s", p->address);
	return text;
}

/*
 * A call without a known caller is not in the log, or anybody could fill it: those are
 * counted by the metrics. A terminal is opened by a GET.
 */
static bool is_noted(const struct exchange *x)
{
	const struct request *q = exchange_request(x);

	return caller_of(x) && q->match.route && (request_mutates(q) || exchange_status(x) == 101);
}

void audit_note(struct exchange *x)
{
	const struct request *q = exchange_request(x);
	enum cay_code code = exchange_code(x);
	char peer[PEER_SIZE];
	struct cay_error err;

	if (!is_noted(x))
		return;
	const struct audit_record r = {
		.time_ms = clock_wall_ms(),
		.request_id = q->id,
		.actor = caller_of(x)->viewer.owner,
		.peer = peer_text(q->peer, peer),
		.method = q->method,
		.path = q->path,
		.operation = q->match.route->name,
		.target = exchange_target(x)[0] ? exchange_target(x) : NULL,
		.status = exchange_status(x),
		.code = code != CAY_OK ? cay_code_name(code) : NULL,
	};

	if (store_audit_add(api_of(x)->store, &r, &err) < 0)
		log_error(err.text, "audit", q->match.route->name, "request", q->id);
}

static void add(void *ctx, const struct audit_record *r)
{
	struct json *j = json_new_object();
	char actor[OWNER_SIZE];

	json_set_int(j, "id", r->id);
	json_set_int(j, "time", r->time_ms);
	json_set_str(j, "request_id", r->request_id);
	json_set_str(j, "actor", owner_text(&r->actor, actor));
	json_set_str(j, "peer", r->peer);
	json_set_str(j, "method", r->method);
	json_set_str(j, "path", r->path);
	json_set_str(j, "operation", r->operation);
	json_set_str(j, "target", r->target);
	json_set_int(j, "status", r->status); /* 0: the client left before there was one */
	json_set_str(j, "code", r->code);
	json_add(ctx, j);
}

static void audit_list(struct exchange *x)
{
	const struct request *q = exchange_request(x);
	struct audit_filter f = {.actor = request_query(q, "actor"),
				 .operation = request_query(q, "operation")};
	struct json *list;
	struct page page;
	struct cay_error err;
	int r;

	if (!caller_is_operator(x))
		return;
	list = json_new_array();
	r = paging_read(x, &page, &err);
	if (r == 0)
		r = paging_time(x, "since", &f.since_ms, &err);
	if (r == 0)
		r = paging_time(x, "until", &f.until_ms, &err);
	if (r == 0)
		r = store_audit_list(api_of(x)->store, &caller_of(x)->viewer, &f, &page, add, list,
				     &err);
	if (r == 0) {
		paging_answer(x, "audit", list, &page);
		return;
	}
	json_free(list);
	exchange_fail(x, &err);
}

const struct route route_audit_list = {
	.method = "GET", .pattern = "/v1/audit", .handle = audit_list, .name = "audit.list"};
