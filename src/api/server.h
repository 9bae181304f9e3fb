/*
 * server.h: an HTTP/1.1 server on a loop. Who binds the sockets, what the routes do
 * and who may call them is others' part: exchange.h is for handlers, router.h says
 * what a route is.
 */
#pragma once

#include "api/router.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cay_error;
struct exchange;
struct loop;
struct server;

/* Everything that is limited, in one place. */
struct server_limits {
	size_t connections;          /* of all listeners; more get 503 */
	size_t listener_connections; /* of one listener */
	size_t line_bytes;           /* method, URL and version */
	size_t head_bytes;
	size_t header_lines;
	size_t body_bytes;   /* of routes that don't say */
	size_t output_bytes; /* that wait in memory for one client */
	uint64_t head_ms;    /* from the first byte of a request to the end of its head */
	uint64_t body_idle_ms;
	uint64_t keep_alive_ms; /* between requests */
	uint64_t write_stall_ms;
	uint64_t linger_ms; /* for a refused client to read why */
	uint64_t heartbeat_ms;
};

extern const struct server_limits server_limits_default;

struct server_config {
	struct loop *loop;
	const struct route *const *routes;
	size_t n_routes;
	const struct server_limits *limits; /* NULL: the default ones */
	/* Host names that TCP clients may call us by, beside localhost and IP addresses. */
	const char *const *names;
	size_t n_names;
	/*
	 * Called when a route was found that is not public, before the body is read. May
	 * exchange_set_caller(). NULL: nobody is turned away.
	 */
	int (*authorize)(struct exchange *x, struct cay_error *err);
	/*
	 * Called before a handler: when the request is whole, or, where its body is streamed,
	 * when its head is. False: it was answered, or will be, and the handler is not called.
	 * NULL: all go on.
	 */
	bool (*before)(struct exchange *x);
	/* A piece of a body that is streamed, before its handler has it; NULL: its end. */
	void (*piece)(struct exchange *x, const char *data, size_t len);
	/* An exchange is over, whether a handler saw it or not: logs and metrics. */
	void (*finished)(struct exchange *x);
	void *ctx;
};

/* The config is copied, what it points to is not. NULL: out of memory. */
struct server *server_new(const struct server_config *config);

/* A listening socket, unix or TCP, which is the server's from here on. 0 or -1. */
int server_listen(struct server *s, int fd, struct cay_error *err);

/* Accepts no more, closes what is idle, and lets the others finish what they are at. */
void server_drain(struct server *s);
size_t server_connections(const struct server *s);

/* Breaks off the exchanges whose caller is one of these. */
typedef bool server_caller_fn(const void *ctx, const void *caller);
void server_break(struct server *s, server_caller_fn *is, const void *ctx);

/* Not from inside a handler. Those that are still at work get on_close. */
void server_free(struct server *s);
