/*
 * dispatch.c: from the head of a request to its handler: may it come from there, is
 * there such a route, may this caller, is the body small enough. Whatever is refused
 * here is refused before a byte of the body was read.
 */
#include "api/connection.h"
#include "api/origin.h"
#include "core/error.h"

#include <string.h>
#include <strings.h>

static enum cay_code code_of(int status)
{
	switch (status) {
	case 403:
		return CAY_E_POLICY;
	case 404:
		return CAY_E_NOT_FOUND;
	case 413:
	case 414:
	case 431:
		return CAY_E_TOO_LARGE;
	case 500:
		return CAY_E_INTERNAL;
	case 503:
		return CAY_E_AT_CAPACITY;
	case 505:
		return CAY_E_UNSUPPORTED;
	default:
		return CAY_E_INVALID;
	}
}

static bool fail(struct exchange *x, int status, const char *why)
{
	struct cay_error err;

	/* Who sends such a request is not trusted with where the next one begins. */
	if (status == 400)
		x->connection->last = true;
	(void)cay_fail(&err, code_of(status), 0, "%s", why);
	exchange_fail_as(x, status, &err);
	return false;
}

void dispatch_refuse(struct connection *c, int status, const char *why)
{
	struct exchange *x = c->exchange;

	if (!x) {
		x = c->exchange = exchange_new(c);
		if (!x) {
			connection_break(c);
			return;
		}
		x->request.method = x->request.path = "-";
		request_make_id(NULL, x->request.id);
	}
	if (x->answer != ANSWER_NONE) {
		connection_break(c);
		return;
	}
	/* For the handler of a streamed body this client is gone: it would answer as well. */
	if (x->handled && x->events && x->events->on_close)
		x->events->on_close(x, EXCHANGE_GONE);
	x->handled = false;
	c->last = true;
	c->state = CONN_ANSWER;
	(void)fail(x, status, why);
}

static bool check_host(struct exchange *x)
{
	const struct connection *c = x->connection;
	const struct server_config *config = &c->server->config;
	const struct http_head *h = x->request.head;
	size_t n = http_header_count(h, "host");

	/* RFC 9112, 3.2: a server must refuse these. */
	if (n > 1 || (n == 0 && (h->minor > 0 || c->tcp)))
		return fail(x, 400, "there must be one Host header");
	if (c->tcp && !origin_host_ok(http_header(h, "host"), config->names, config->n_names))
		return fail(x, 403, "the Host header is not a name of this server");
	return true;
}

/* A WebSocket changes things though it is a GET, and browsers let any page open one. */
static bool check_origin(struct exchange *x)
{
	const struct request *r = &x->request;
	const char *origin = request_header(r, "origin"), *host = request_header(r, "host");

	if (!origin || !(request_mutates(r) || r->head->upgrade))
		return true;
	if (http_header_count(r->head, "origin") == 1 && host && origin_is_own(origin, host))
		return true;
	return fail(x, 403, "requests from other sites' pages are refused");
}

static bool find_route(struct exchange *x)
{
	const struct server_config *config = &x->connection->server->config;
	struct request *r = &x->request;

	if (route_find(config->routes, config->n_routes, r->method, r->segments, r->n_segments,
		       &r->match))
		return true;
	if (!r->match.allow[0])
		return fail(x, 404, "there is no such path");
	exchange_header(x, "Allow", r->match.allow);
	return fail(x, 405, "the path has no such method");
}

static bool check_caller(struct exchange *x)
{
	const struct server_config *config = &x->connection->server->config;
	struct cay_error err;

	if ((x->request.match.route->flags & ROUTE_PUBLIC) || !config->authorize)
		return true;
	if (config->authorize(x, &err) == 0)
		return true;
	exchange_fail(x, &err);
	return false;
}

static bool check_body(struct exchange *x)
{
	struct connection *c = x->connection;
	const struct http_head *h = x->request.head;
	const char *expect = http_header(h, "expect");
	size_t max = x->request.match.route->max_body;

	x->body_max = max > 0 ? max : c->server->limits.body_bytes;
	x->body = BUF(x->body_max);
	if (expect && strcasecmp(expect, "100-continue") != 0)
		return fail(x, 417, "an expectation that can't be met");
	if (h->has_length && h->length > x->body_max)
		return fail(x, 413, "the body is too large");
	c->expects = expect && h->minor > 0 && !x->body_whole;
	return true;
}

static bool accepted(struct exchange *x)
{
	const char *why;

	if (request_split(&x->request, x->request.head, &why) < 0)
		return fail(x, 400, why);
	return check_host(x) && check_origin(x) && find_route(x) && check_caller(x) &&
	       check_body(x);
}

static void handle(struct exchange *x)
{
	x->handled = true;
	x->request.match.route->handle(x);
}

void dispatch_head(struct connection *c)
{
	const struct http_head *h = http_parser_head(c->parser);
	struct exchange *x = c->exchange = exchange_new(c);

	if (!x) {
		connection_break(c);
		return;
	}
	c->last = !h->keep_alive || c->server->draining;
	c->state = CONN_BODY;
	c->since = 0;
	x->request.head = h;
	x->request.method = h->method;
	x->request.path = "-";
	x->no_content = strcmp(h->method, "HEAD") == 0;
	x->body_whole = !h->chunked && h->length == 0;
	request_make_id(http_header(h, "x-request-id"), x->request.id);
	if (!accepted(x))
		return;
	x->streams = x->request.match.route->flags & ROUTE_STREAMS_BODY;
	if (x->streams) {
		x->handled = true; /* so that whoever watches it hears of its end */
		if (!c->server->config.before || c->server->config.before(x))
			handle(x);
	}
}

void dispatch_body(struct connection *c, const char *data, size_t len)
{
	struct exchange *x = c->exchange;

	c->since += len;
	x->body_seen += len;
	if (x->body_seen > x->body_max) {
		dispatch_refuse(c, 413, "the body is too large");
		return;
	}
	if (!x->streams) {
		if (buf_append(&x->body, data, len) < 0)
			dispatch_refuse(c, 500, "out of memory");
	} else {
		if (c->server->config.piece)
			c->server->config.piece(x, data, len);
		if (x->events && x->events->on_body)
			x->events->on_body(x, data, len);
	}
}

void dispatch_end(struct connection *c)
{
	struct exchange *x = c->exchange;

	x->body_whole = true;
	c->expects = false;
	c->state = CONN_ANSWER;
	if (x->streams) {
		if (c->server->config.piece)
			c->server->config.piece(x, NULL, 0);
		if (x->events && x->events->on_body_end)
			x->events->on_body_end(x);
		return;
	}
	x->request.body = buf_str(&x->body);
	x->request.body_len = x->body.len;
	if (!c->server->config.before || c->server->config.before(x))
		handle(x);
}
