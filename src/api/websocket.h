/*
 * websocket.h: messages over an exchange: the shim over wslay. Pings are answered, and
 * sent: a client that is silent for two of them is gone.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct exchange;
struct websocket;

#define WEBSOCKET_MESSAGE_MAX \
	((size_t)1 << 20) /* that a client may send; more is closed with 1009 */
#define WEBSOCKET_PING_MS 30000

/* Any may be NULL. */
struct websocket_events {
	/* A whole message; a text is UTF-8. */
	void (*on_message)(struct websocket *w, bool text, const char *data, size_t len);
	/* As exchange.h has it. */
	void (*on_drain)(struct websocket *w);
	/* The last of all; code is the client's (1005: it gave none, 1006: it did not close). */
	void (*on_close)(struct websocket *w, int code);
};

/*
 * Answers the handshake and takes the exchange over, its events and ctx included. NULL:
 * it was none, or memory is out; the exchange has been answered then. events stays where it is.
 */
struct websocket *websocket_new(struct exchange *x, const struct websocket_events *events,
				void *ctx);
void *websocket_ctx(const struct websocket *w);

/*
 * Returns how many bytes wait to be sent: from EXCHANGE_HIGH on stop until on_drain. After a
 * close nothing is sent any more.
 */
size_t websocket_send(struct websocket *w, bool text, const void *data, size_t len);

/* Says goodbye and waits a little for the client's. code: 1000 and so on; reason at most 120 bytes.
 */
void websocket_close(struct websocket *w, uint16_t code, const char *reason);

/* No more messages until resume, but for what has been read already. */
void websocket_pause(struct websocket *w);
void websocket_resume(struct websocket *w);
