/*
 * connection.h: for the server's own files: what server.c, connection.c, exchange.c
 * and dispatch.c know of each other. Handlers include exchange.h.
 */
#pragma once

#include "api/exchange.h"
#include "api/server.h"
#include "base/buf.h"
#include "base/http.h"
#include "base/loop.h"

#define INPUT_BYTES   65536 /* of one read */
#define LISTENERS_MAX 8
/* Connections past the limit that may be told so at one time; more are just closed. */
#define REFUSED_MAX 64

struct listener {
	struct loop_fd fd;
	struct server *server;
	struct loop_timer again; /* accept() found no room */
	size_t n_connections;
	bool tcp;
};

struct server {
	struct server_config config;
	struct server_limits limits;
	struct listener listeners[LISTENERS_MAX];
	size_t n_listeners;
	struct connection *first; /* of the list of all */
	size_t n_connections, n_refused;
	bool draining;
	char input[INPUT_BYTES]; /* what was read last; used up or put aside before the next */
};

enum answer {
	ANSWER_NONE,
	ANSWER_SIZED, /* a body of known length, or none */
	ANSWER_CHUNKED,
	ANSWER_TO_END,   /* of the connection */
	ANSWER_UPGRADED, /* bytes as they are, both ways */
	ANSWER_WHOLE,    /* all of it is in the output */
};

struct exchange {
	struct connection *connection;
	struct request request;
	const struct exchange_events *events;
	void *ctx, *caller;
	bool handled; /* a handler knows of it */
	bool streams; /* the body goes to on_body */
	bool body_whole;
	bool paused;
	bool over_high; /* on_drain is owed */
	enum answer answer;
	int status;
	uint64_t left;   /* bytes still to be written, of a sized answer */
	bool no_content; /* of a HEAD: the body is counted and not sent */
	struct buf headers;
	struct buf body; /* of a request that is not streamed */
	size_t body_max, body_seen;
	struct loop_timer heartbeat;
	uint64_t began_ns;
	enum cay_code code;
	char target[EXCHANGE_TARGET_SIZE];
	exchange_answered_fn *answered;
	int64_t retry_s;
};

enum connection_state {
	CONN_HEAD,   /* waits for a request, or is in its head */
	CONN_BODY,   /* in its body */
	CONN_ANSWER, /* the request is whole */
	CONN_RAW,    /* upgraded */
	CONN_LINGER, /* answered and closed on our side: reads until the client ends, too */
};

/* What input_timer stands for. */
enum timing { TIMING_NONE, TIMING_HEAD, TIMING_IDLE, TIMING_BODY, TIMING_LINGER };

struct connection {
	struct server *server;
	struct listener *listener;
	struct connection *next, **link;
	struct loop_fd fd;
	struct loop_timer input_timer, output_timer, kick;
	enum connection_state state;
	enum timing timing;
	struct peer peer;
	struct http_parser *parser;
	struct exchange *exchange; /* NULL between requests */
	struct buf input;          /* read and not yet used */
	struct buf output;
	size_t sent;  /* of output */
	size_t since; /* bytes of body since the timer was set */
	bool refused; /* past the limit */
	bool tcp;
	bool running;     /* in connection_run() */
	bool dead;        /* to be freed by it */
	bool half_closed; /* the client sends no more */
	bool served;      /* a request before this one */
	bool last;        /* closed after this answer */
	bool expects;     /* a 100 is owed before the body is read */
};

/* server.c */
void server_remember(struct connection *c);
void server_forget(struct connection *c);
int peer_of(int fd, bool tcp, struct peer *ret);

/* connection.c */
void connection_new(struct listener *l, int fd, bool refused);
void connection_free(struct connection *c);
/* Has the loop call run(), from where that can't be done itself. */
void connection_kick(struct connection *c);
void connection_break(struct connection *c);
size_t connection_put(struct connection *c, const void *data, size_t len);
size_t connection_unsent(const struct connection *c);
/* The bytes of a request, up to where nothing can be done with more. How many were used. */
size_t connection_parse(struct connection *c, const char *data, size_t len);

/* dispatch.c: from a head to its handler. */
void dispatch_head(struct connection *c);
void dispatch_body(struct connection *c, const char *data, size_t len);
void dispatch_end(struct connection *c);
/* Answers what is no request, or came too slowly, and closes after it. */
void dispatch_refuse(struct connection *c, int status, const char *why);

/* exchange.c */
struct exchange *exchange_new(struct connection *c);
/* Calls on_close, where a handler knows of it, and frees. */
void exchange_close(struct exchange *x, enum exchange_end how);
