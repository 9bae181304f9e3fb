/* Server-sent events, and what a WebSocket begins with. */
#include "api/connection.h"
#include "base/json.h"
#include "base/text.h"
#include "core/error.h"

#include <assert.h>
#include <openssl/evp.h>
#include <string.h>

#define EVENT_MAX_BYTES ((size_t)64 << 20)

bool exchange_wants_events(const struct exchange *x)
{
	return http_list_has(request_header(&x->request, "accept"), "text/event-stream");
}

static void rest(struct exchange *x)
{
	(void)loop_after(exchange_loop(x), &x->heartbeat,
			 x->connection->server->limits.heartbeat_ms);
}

static void beat(struct loop_timer *t)
{
	struct exchange *x = t->ctx;

	/* Where something waits to be sent already the client's silence is not ours. */
	if (connection_unsent(x->connection) == 0)
		(void)exchange_write(x, ":\n\n", 3);
	rest(x);
}

void exchange_events_begin(struct exchange *x)
{
	if (exchange_gone(x))
		return;
	exchange_header(x, "Cache-Control", "no-store");
	exchange_header(x, "X-Accel-Buffering", "no");
	exchange_begin(x, 200, "text/event-stream");
	x->heartbeat = (struct loop_timer){.fire = beat, .ctx = x};
	rest(x);
}

size_t exchange_event(struct exchange *x, const char *name, const struct json *j)
{
	_cleanup_(buf_done) struct buf text = BUF(EVENT_MAX_BYTES);

	if (exchange_gone(x))
		return 0;
	if (x->answer == ANSWER_NONE)
		exchange_events_begin(x);
	/* The text is one line, its newline included. */
	if (buf_printf(&text, "event: %s\ndata: ", name) < 0 || json_text(j, &text) < 0 ||
	    buf_append_str(&text, "\n") < 0) {
		connection_break(x->connection);
		return 0;
	}
	rest(x);
	return exchange_write(x, text.data, text.len);
}

/* The proof that we speak the protocol: RFC 6455, 4.2.2. */
static int accept_key(const char *key, struct buf *out)
{
	static const char guid[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
	_cleanup_(buf_done) struct buf both = BUF(256);
	unsigned char digest[EVP_MAX_MD_SIZE];
	unsigned len = 0;

	if (buf_printf(&both, "%s%s", key, guid) < 0 ||
	    EVP_Digest(both.data, both.len, digest, &len, EVP_sha1(), NULL) != 1)
		return -1;
	return text_append_base64(out, digest, len);
}

static int refuse(struct exchange *x, int status, const char *why)
{
	struct cay_error err;

	(void)cay_fail(&err, CAY_E_INVALID, 0, "%s", why);
	if (status == 426) {
		exchange_header(x, "Upgrade", "websocket");
		exchange_header(x, "Connection", "Upgrade");
		exchange_header(x, "Sec-WebSocket-Version", "13");
	}
	exchange_fail_as(x, status, &err);
	return -1;
}

/* A key is 16 bytes in base64, which we need not decode to know. */
static bool key_ok(const char *key)
{
	static const char letters[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

	return key && strlen(key) == 24 && strspn(key, letters) == 22 &&
	       strcmp(key + 22, "==") == 0;
}

int exchange_upgrade(struct exchange *x)
{
	_cleanup_(buf_done) struct buf b = BUF(512);
	const struct request *r = &x->request;
	const char *key = request_header(r, "sec-websocket-key");
	const char *version = request_header(r, "sec-websocket-version");
	struct connection *c = x->connection;

	if (exchange_gone(x))
		return -1;
	if (!r->head->upgrade || !http_list_has(request_header(r, "upgrade"), "websocket"))
		return refuse(x, 426, "this is a WebSocket: it needs an upgrade");
	if (!version || strcmp(version, "13") != 0)
		return refuse(x, 426, "only version 13 of WebSocket is spoken");
	if (strcmp(r->method, "GET") != 0 || r->head->minor == 0 || r->head->length > 0 ||
	    r->head->chunked || c->state != CONN_ANSWER || !key_ok(key) ||
	    http_header_count(r->head, "sec-websocket-key") != 1)
		return refuse(x, 400, "a bad WebSocket handshake");
	if (buf_printf(&b,
		       "HTTP/1.1 101 Switching Protocols\r\nX-Request-Id: %s\r\n"
		       "Upgrade: websocket\r\nConnection: Upgrade\r\n"
		       "Sec-WebSocket-Accept: ",
		       r->id) < 0 ||
	    accept_key(key, &b) < 0 || buf_append_str(&b, "\r\n\r\n") < 0) {
		connection_break(c);
		return -1;
	}
	(void)connection_put(c, b.data, b.len);
	x->status = 101;
	x->answer = ANSWER_UPGRADED;
	x->body_whole = false;
	c->state = CONN_RAW;
	c->last = true;
	return 0;
}
