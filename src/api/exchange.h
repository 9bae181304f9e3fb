/*
 * exchange.h: one request and its answer; what handlers work with.
 *
 * A route's handler is called with an exchange whose body has come whole, or, where
 * the route says ROUTE_STREAMS_BODY, as soon as the head has. It answers now or
 * later, whole (exchange_respond and its kin) or in pieces (exchange_begin, _write,
 * _end). Nothing here does I/O or calls back: bytes are put aside, and the loop takes
 * over when the handler has returned. So no callback ever comes while a handler or
 * another callback of the same exchange is at work.
 *
 * An exchange lives until on_close, which comes exactly once for each one that a
 * handler was called with: when the answer is with the kernel, whole, or when nobody
 * is there any more to take it. Until then every function below may be called, and
 * does nothing once the client is gone; but an answer is begun once and ended once:
 * anything else is the handler's bug, and asserted.
 *
 * When is a client gone? When a write fails or the kernel reports the connection
 * dead (EPOLLHUP, EPOLLERR). A unix socket's peer that closes is seen at once. Over
 * TCP a closed client and one that only finished sending look the same (a FIN): such
 * a client still gets its answer, but for routes with ROUTE_CANCELS_ON_FIN, where a
 * FIN before the end of the answer means gone. A client that half-closes a unix
 * socket always gets its answer.
 */
#pragma once

#include "api/request.h"
#include "base/attr.h"
#include "core/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct exchange;
struct json;
struct loop;

enum exchange_end {
	EXCHANGE_DONE, /* the answer is with the kernel */
	EXCHANGE_GONE, /* the client went away, or was too slow: cancel what runs for it */
};

/* Any may be NULL. */
struct exchange_events {
	/* A piece of a streamed body. */
	void (*on_body)(struct exchange *x, const char *data, size_t len);
	void (*on_body_end)(struct exchange *x);
	/* What is buffered has gone below the low mark, after it had come to the high one. */
	void (*on_drain)(struct exchange *x);
	/* The last of all. x is freed after it. */
	void (*on_close)(struct exchange *x, enum exchange_end how);
};

/* What a handler keeps with the exchange; events stays where it is. */
void exchange_watch(struct exchange *x, const struct exchange_events *events, void *ctx);
void *exchange_ctx(const struct exchange *x);

const struct request *exchange_request(const struct exchange *x);
struct loop *exchange_loop(const struct exchange *x);
/* The server's ctx, from its config. */
void *exchange_server_ctx(const struct exchange *x);

/* Who asks, as the server's authorize hook found out; it owns what it sets. */
void exchange_set_caller(struct exchange *x, void *caller);
void *exchange_caller(const struct exchange *x);

/* Whether the client is known to be gone; on_close is on its way then. */
bool exchange_gone(const struct exchange *x);

/* Whether an answer was begun, and its status; 0: not yet. */
int exchange_status(const struct exchange *x);
/* Of an answer that is an error; else CAY_OK. */
enum cay_code exchange_code(const struct exchange *x);

/* When its head had come, by clock_now_ns(). */
uint64_t exchange_began_ns(const struct exchange *x);

/* The id of what the call made or changed, for the audit log; copied, and cut where too long. */
#define EXCHANGE_TARGET_SIZE 64
void exchange_set_target(struct exchange *x, const char *id);
const char *exchange_target(const struct exchange *x); /* "": none */

/* Called with an answer that is whole (exchange_respond and its kin), before it goes out. */
typedef void exchange_answered_fn(struct exchange *x, int status, const void *body, size_t len);
void exchange_set_answered(struct exchange *x, exchange_answered_fn *fn);

/* What Retry-After says, if the answer comes to be a 429 or 503; without this it is 1. */
void exchange_set_retry(struct exchange *x, int64_t seconds);

/* One more header of the answer, before it is begun. No CR or LF in them. */
void exchange_header(struct exchange *x, const char *name, const char *value);

/* A whole answer. type may be NULL where there is no body. */
void exchange_respond(struct exchange *x, int status, const char *type, const void *body,
		      size_t len);
void exchange_respond_json(struct exchange *x, int status, const struct json *j);

/*
 * The error object, with the status that goes with its code. Where the answer was begun
 * already the connection is broken off instead, so that nobody takes it for whole.
 */
void exchange_fail(struct exchange *x, const struct cay_error *err);
/* The same with another status: what only HTTP has a word for (405, 426). */
void exchange_fail_as(struct exchange *x, int status, const struct cay_error *err);

/* An answer in pieces: chunked, or up to the end of the connection for HTTP/1.0. */
void exchange_begin(struct exchange *x, int status, const char *type);
/* The same of a length that is known: exactly so many bytes must be written. */
void exchange_begin_sized(struct exchange *x, int status, const char *type, uint64_t length);

/*
 * How many bytes wait to be sent, these included. From EXCHANGE_HIGH on stop, and go on at
 * on_drain: one who never stops is cut off at the server's maximum.
 */
size_t exchange_write(struct exchange *x, const void *data, size_t len);
void exchange_end(struct exchange *x);
/* Ends it so that the client sees it was not whole. */
void exchange_abort(struct exchange *x);

#define EXCHANGE_HIGH ((size_t)256 << 10)
#define EXCHANGE_LOW  ((size_t)64 << 10)

/* Bytes that wait to be sent. */
size_t exchange_buffered(const struct exchange *x);

/* A streamed body: no more of it until resume; the client's sending comes to a halt. */
void exchange_pause(struct exchange *x);
void exchange_resume(struct exchange *x);

/*
 * Server-sent events. exchange_event() begins the answer where that was not done; a
 * comment goes out whenever nothing else did for a while. Returns what exchange_write does.
 */
void exchange_events_begin(struct exchange *x);
size_t exchange_event(struct exchange *x, const char *name, const struct json *j);

/* Whether the client asks for events: Accept has text/event-stream. */
bool exchange_wants_events(const struct exchange *x);

/*
 * Answers a WebSocket handshake. From then on both ways are bytes as they are: on_body,
 * exchange_write, and exchange_end to close; on_body_end when the client has ended its
 * side. api/websocket.h makes messages of them. 0, or -1 when it is no handshake of
 * version 13, which has been answered (400 or 426) then.
 */
int exchange_upgrade(struct exchange *x);
