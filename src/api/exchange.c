#include "api/exchange.h"

#include "api/connection.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/text.h"
#include "core/error.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEADERS_MAX_BYTES 16384
#define JSON_MAX_BYTES    ((size_t)256 << 20)

struct exchange *exchange_new(struct connection *c)
{
	struct exchange *x = calloc(1, sizeof(*x));

	if (!x)
		return NULL;
	x->connection = c;
	x->headers = BUF(HEADERS_MAX_BYTES);
	x->began_ns = clock_now_ns();
	x->retry_s = 1;
	x->request.peer = &c->peer;
	return x;
}

void exchange_close(struct exchange *x, enum exchange_end how)
{
	struct server *s = x->connection->server;

	loop_cancel(s->config.loop, &x->heartbeat);
	if (x->handled && x->events && x->events->on_close)
		x->events->on_close(x, how);
	if (s->config.finished)
		s->config.finished(x);
	request_release(&x->request);
	buf_done(&x->headers);
	buf_done(&x->body);
	free(x);
}

void exchange_watch(struct exchange *x, const struct exchange_events *events, void *ctx)
{
	x->events = events;
	x->ctx = ctx;
}

void *exchange_ctx(const struct exchange *x)
{
	return x->ctx;
}

const struct request *exchange_request(const struct exchange *x)
{
	return &x->request;
}

struct loop *exchange_loop(const struct exchange *x)
{
	return x->connection->server->config.loop;
}

void *exchange_server_ctx(const struct exchange *x)
{
	return x->connection->server->config.ctx;
}

void exchange_set_caller(struct exchange *x, void *caller)
{
	x->caller = caller;
}

void *exchange_caller(const struct exchange *x)
{
	return x->caller;
}

bool exchange_gone(const struct exchange *x)
{
	return x->connection->dead;
}

int exchange_status(const struct exchange *x)
{
	return x->status;
}

enum cay_code exchange_code(const struct exchange *x)
{
	return x->code;
}

uint64_t exchange_began_ns(const struct exchange *x)
{
	return x->began_ns;
}

void exchange_set_target(struct exchange *x, const char *id)
{
	(void)snprintf(x->target, sizeof(x->target), "%s", id);
}

const char *exchange_target(const struct exchange *x)
{
	return x->target;
}

void exchange_set_answered(struct exchange *x, exchange_answered_fn *fn)
{
	x->answered = fn;
}

void exchange_set_retry(struct exchange *x, int64_t seconds)
{
	x->retry_s = seconds;
}

void exchange_header(struct exchange *x, const char *name, const char *value)
{
	assert(x->answer == ANSWER_NONE);
	assert(!strpbrk(name, "\r\n") && !strpbrk(value, "\r\n"));
	if (buf_printf(&x->headers, "%s: %s\r\n", name, value) < 0)
		connection_break(x->connection);
}

/* The status line and all headers, with the one that says how the body is framed. */
static void head(struct exchange *x, int status, const char *type, const char *framing)
{
	_cleanup_(buf_done) struct buf b = BUF(2 * HEADERS_MAX_BYTES);
	struct connection *c = x->connection;
	int r;

	assert(x->answer == ANSWER_NONE);
	x->status = status;
	/* A body that was not read can't be told from the next request. */
	if (!x->body_whole)
		c->last = true;
	r = buf_printf(&b, "HTTP/1.1 %d %s\r\nX-Request-Id: %s\r\n", status,
		       http_status_text(status), x->request.id);
	if (r == 0 && type)
		r = buf_printf(&b, "Content-Type: %s\r\n", type);
	if (r == 0)
		r = buf_append(&b, buf_str(&x->headers), x->headers.len);
	if (r == 0)
		r = buf_append_str(&b, framing);
	if (r == 0 && c->last && status != 101)
		r = buf_append_str(&b, "Connection: close\r\n");
	if (r == 0)
		r = buf_append_str(&b, "\r\n");
	if (r < 0)
		connection_break(c);
	(void)connection_put(c, b.data, b.len);
}

static bool bodyless(int status)
{
	return status == 204 || status == 304;
}

void exchange_begin_sized(struct exchange *x, int status, const char *type, uint64_t length)
{
	_cleanup_(buf_done) struct buf framing = BUF(64);

	if (exchange_gone(x))
		return;
	if (bodyless(status))
		x->no_content = true;
	else
		(void)buf_printf(&framing, "Content-Length: %" PRIu64 "\r\n", length);
	head(x, status, type, buf_str(&framing));
	x->answer = ANSWER_SIZED;
	x->left = length;
}

void exchange_begin(struct exchange *x, int status, const char *type)
{
	struct connection *c = x->connection;

	if (exchange_gone(x))
		return;
	if (x->request.head && x->request.head->minor == 0) {
		c->last = true;
		head(x, status, type, "");
		x->answer = ANSWER_TO_END;
		return;
	}
	head(x, status, type, "Transfer-Encoding: chunked\r\n");
	x->answer = ANSWER_CHUNKED;
}

static void put_chunk(struct exchange *x, const void *data, size_t len)
{
	_cleanup_(buf_done) struct buf size = BUF(32);

	if (len == 0)
		return;
	if (buf_printf(&size, "%zx\r\n", len) < 0)
		connection_break(x->connection);
	(void)connection_put(x->connection, size.data, size.len);
	(void)connection_put(x->connection, data, len);
	(void)connection_put(x->connection, "\r\n", 2);
}

size_t exchange_write(struct exchange *x, const void *data, size_t len)
{
	struct connection *c = x->connection;

	if (exchange_gone(x))
		return 0;
	assert(x->answer != ANSWER_NONE && x->answer != ANSWER_WHOLE);
	if (x->answer == ANSWER_SIZED) {
		assert(len <= x->left);
		x->left -= len;
	}
	if (x->no_content)
		return connection_unsent(c);
	if (x->answer == ANSWER_CHUNKED)
		put_chunk(x, data, len);
	else
		(void)connection_put(c, data, len);
	if (connection_unsent(c) >= EXCHANGE_HIGH)
		x->over_high = true;
	return connection_unsent(c);
}

void exchange_end(struct exchange *x)
{
	struct connection *c = x->connection;

	if (exchange_gone(x))
		return;
	assert(x->answer != ANSWER_NONE && x->answer != ANSWER_WHOLE);
	/* To a HEAD the length is all that is said. */
	if (x->answer == ANSWER_SIZED && x->left > 0 && !x->no_content)
		connection_break(c);
	else if (x->answer == ANSWER_CHUNKED && !x->no_content)
		(void)connection_put(c, "0\r\n\r\n", 5);
	loop_cancel(exchange_loop(x), &x->heartbeat);
	x->answer = ANSWER_WHOLE;
	connection_kick(c);
}

void exchange_abort(struct exchange *x)
{
	connection_break(x->connection);
}

size_t exchange_buffered(const struct exchange *x)
{
	return connection_unsent(x->connection);
}

void exchange_respond(struct exchange *x, int status, const char *type, const void *body,
		      size_t len)
{
	if (exchange_gone(x))
		return;
	if (x->answered)
		x->answered(x, status, body, len);
	exchange_begin_sized(x, status, type, len);
	if (len > 0)
		(void)exchange_write(x, body, len);
	exchange_end(x);
}

void exchange_respond_json(struct exchange *x, int status, const struct json *j)
{
	_cleanup_(buf_done) struct buf text = BUF(JSON_MAX_BYTES);

	if (exchange_gone(x))
		return;
	if (json_text(j, &text) < 0) {
		connection_break(x->connection);
		return;
	}
	exchange_respond(x, status, "application/json", text.data, text.len);
}

void exchange_fail(struct exchange *x, const struct cay_error *err)
{
	exchange_fail_as(x, cay_code_http(err->code), err);
}

void exchange_fail_as(struct exchange *x, int status, const struct cay_error *err)
{
	_cleanup_(json_freep) struct json *j = cay_error_json(err, x->request.id);
	char retry[24];

	if (x->answer != ANSWER_NONE) {
		exchange_abort(x);
		return;
	}
	if (exchange_gone(x))
		return;
	x->code = err->code;
	(void)snprintf(retry, sizeof(retry), "%" PRId64, x->retry_s);
	if (status == 429 || status == 503)
		exchange_header(x, "Retry-After", retry);
	if (status == 401)
		exchange_header(x, "WWW-Authenticate", "Bearer");
	exchange_respond_json(x, status, j);
}

void exchange_pause(struct exchange *x)
{
	x->paused = true;
}

void exchange_resume(struct exchange *x)
{
	x->paused = false;
	if (!exchange_gone(x))
		connection_kick(x->connection);
}
