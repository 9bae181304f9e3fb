#include "api/websocket.h"

#include "api/exchange.h"
#include "base/loop.h"
#include "core/error.h"

#include <stdlib.h>
#include <string.h>
#include <wslay/wslay.h>

#define GOODBYE_MS 5000

struct websocket {
	struct exchange *exchange;
	const struct websocket_events *events;
	void *ctx;
	wslay_event_context_ptr ws;
	const char *input; /* what wslay has yet to take */
	size_t input_len;
	struct loop_timer timer; /* the next ping, or the end of waiting for a goodbye */
	bool heard;              /* since the last ping */
	bool closing;            /* our goodbye was said */
	bool ended;              /* and all is over */
};

static ssize_t on_recv(wslay_event_context_ptr ws, uint8_t *data, size_t len, int flags, void *ctx)
{
	struct websocket *w = ctx;
	size_t n = size_min(len, w->input_len);

	(void)flags;
	if (n == 0) {
		wslay_event_set_error(ws, WSLAY_ERR_WOULDBLOCK);
		return -1;
	}
	memcpy(data, w->input, n);
	w->input += n;
	w->input_len -= n;
	return (ssize_t)n;
}

static ssize_t on_send(wslay_event_context_ptr ws, const uint8_t *data, size_t len, int flags,
		       void *ctx)
{
	struct websocket *w = ctx;

	(void)flags;
	if (exchange_gone(w->exchange)) {
		wslay_event_set_error(ws, WSLAY_ERR_CALLBACK_FAILURE);
		return -1;
	}
	(void)exchange_write(w->exchange, data, len);
	return (ssize_t)len;
}

static void on_message(wslay_event_context_ptr ws, const struct wslay_event_on_msg_recv_arg *m,
		       void *ctx)
{
	struct websocket *w = ctx;

	(void)ws;
	if (wslay_is_ctrl_frame(m->opcode) || w->closing || !w->events->on_message)
		return;
	w->events->on_message(w, m->opcode == WSLAY_TEXT_FRAME, (const char *)m->msg,
			      m->msg_length);
}

static void end(struct websocket *w)
{
	w->ended = true;
	exchange_end(w->exchange);
}

/* Sends what wslay has, which goes into the exchange's buffer at once; ends what is over. */
static void flush(struct websocket *w)
{
	if (exchange_gone(w->exchange) || w->ended)
		return;
	if (wslay_event_send(w->ws) < 0)
		exchange_abort(w->exchange);
	else if (wslay_event_get_close_sent(w->ws) && !wslay_event_get_read_enabled(w->ws))
		end(w);
}

static void on_body(struct exchange *x, const char *data, size_t len)
{
	struct websocket *w = exchange_ctx(x);

	w->heard = true;
	w->input = data;
	w->input_len = len;
	if (wslay_event_recv(w->ws) == 0) {
		flush(w);
		return;
	}
	/* A frame that makes no sense: wslay has a goodbye for it, but wants no more of this. */
	(void)wslay_event_send(w->ws);
	end(w);
}

/* The client ended its side without a goodbye. */
static void on_body_end(struct exchange *x)
{
	exchange_abort(x);
}

static void on_drain(struct exchange *x)
{
	struct websocket *w = exchange_ctx(x);

	if (w->events->on_drain && !w->closing)
		w->events->on_drain(w);
}

static void on_close(struct exchange *x, enum exchange_end how)
{
	struct websocket *w = exchange_ctx(x);

	(void)how;
	loop_cancel(exchange_loop(x), &w->timer);
	if (w->events->on_close)
		w->events->on_close(w, wslay_event_get_status_code_received(w->ws));
	wslay_event_context_free(w->ws);
	free(w);
}

static const struct exchange_events exchange_side = {
	.on_body = on_body,
	.on_body_end = on_body_end,
	.on_drain = on_drain,
	.on_close = on_close,
};

static void on_timer(struct loop_timer *t)
{
	struct websocket *w = t->ctx;
	struct wslay_event_msg ping = {.opcode = WSLAY_PING};

	if (w->closing || !w->heard) {
		exchange_abort(w->exchange);
		return;
	}
	w->heard = false;
	(void)wslay_event_queue_msg(w->ws, &ping);
	flush(w);
	(void)loop_after(exchange_loop(w->exchange), t, WEBSOCKET_PING_MS);
}

static struct websocket *alloc(struct exchange *x, const struct websocket_events *events, void *ctx)
{
	static const struct wslay_event_callbacks callbacks = {
		.recv_callback = on_recv,
		.send_callback = on_send,
		.on_msg_recv_callback = on_message,
	};
	struct websocket *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	if (wslay_event_context_server_init(&w->ws, &callbacks, w) != 0) {
		free(w);
		return NULL;
	}
	wslay_event_config_set_max_recv_msg_length(w->ws, WEBSOCKET_MESSAGE_MAX);
	w->exchange = x;
	w->events = events;
	w->ctx = ctx;
	w->timer = (struct loop_timer){.fire = on_timer, .ctx = w};
	w->heard = true;
	return w;
}

struct websocket *websocket_new(struct exchange *x, const struct websocket_events *events,
				void *ctx)
{
	struct websocket *w = alloc(x, events, ctx);
	struct cay_error err;

	if (!w) {
		(void)cay_fail(&err, CAY_E_INTERNAL, 0, "out of memory");
		exchange_fail(x, &err);
		return NULL;
	}
	if (exchange_upgrade(x) < 0) {
		wslay_event_context_free(w->ws);
		free(w);
		return NULL;
	}
	exchange_watch(x, &exchange_side, w);
	(void)loop_after(exchange_loop(x), &w->timer, WEBSOCKET_PING_MS);
	return w;
}

void *websocket_ctx(const struct websocket *w)
{
	return w->ctx;
}

size_t websocket_send(struct websocket *w, bool text, const void *data, size_t len)
{
	struct wslay_event_msg m = {.opcode = text ? WSLAY_TEXT_FRAME : WSLAY_BINARY_FRAME,
				    .msg = data,
				    .msg_length = len};

	if (w->closing || exchange_gone(w->exchange))
		return 0;
	(void)wslay_event_queue_msg(w->ws, &m);
	flush(w);
	return exchange_buffered(w->exchange);
}

void websocket_close(struct websocket *w, uint16_t code, const char *reason)
{
	if (w->closing || exchange_gone(w->exchange))
		return;
	w->closing = true;
	(void)wslay_event_queue_close(w->ws, code, (const uint8_t *)reason,
				      size_min(strlen(reason), 120));
	flush(w);
	exchange_resume(w->exchange);
	(void)loop_after(exchange_loop(w->exchange), &w->timer, GOODBYE_MS);
}

void websocket_pause(struct websocket *w)
{
	exchange_pause(w->exchange);
}

void websocket_resume(struct websocket *w)
{
	exchange_resume(w->exchange);
}
