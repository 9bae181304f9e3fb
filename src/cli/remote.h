/*
 * remote.h: a blocking client of `cay serve`: HTTP/1.1 over a unix socket or TCP. What a
 * daemon answers is foreign: everything has a bound, and names in it are only names.
 *
 * SIGINT and the like end what is under way: the connection is closed, which cancels a
 * run, and the call fails with an error whose exit_code is 128+n.
 */
#pragma once

#include "core/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json;
struct buf;
struct http_head;

#define REMOTE_JSON_MAX  (128u << 20) /* an answer: a result with its files in base64 */
#define REMOTE_EVENT_MAX REMOTE_JSON_MAX
#define REMOTE_IDLE_MS   60000 /* without a byte, where nothing is being run */

/* Where a daemon is. */
struct remote_place {
	bool named; /* by CAY_HOST; else it is the default socket */
	bool tcp;
	char path[108]; /* of a socket */
	char host[256], port[6];
};

/* "unix:PATH", "http://HOST:PORT", "http://[::1]:8600". */
int remote_place_parse(const char *text, struct remote_place *ret, struct cay_error *err);

/* What CAY_HOST says, else the default socket. */
int remote_place_find(struct remote_place *ret, struct cay_error *err);

/* As a person would write it. */
const char *remote_place_text(const struct remote_place *p, char text[300]);

/*
 * A connected, non-blocking socket. 0; -1: nobody is there (CAY_E_ENGINE), or it can't be
 * asked. ms: the longest wait.
 */
int remote_place_connect(const struct remote_place *p, int ms, int *ret_fd, struct cay_error *err);

struct remote;

/* With a connection. CAY_E_ENGINE, with what to do about it, where there is no daemon. */
int remote_open(struct remote **ret, struct cay_error *err);

/* The same; 1 where CAY_HOST is not set and nobody listens on the default socket. */
int remote_try(struct remote **ret, struct cay_error *err);

void remote_free(struct remote *r);
void remote_freep(struct remote **r);

/* The signal that ended a call, or 0; and what calls wait on for one, -1 if they don't. */
int remote_signal(const struct remote *r);
int remote_signal_fd(const struct remote *r);

/*
 * What SIGINT does instead of ending the call that is under way. 0: it goes on; -1. It may call
 * the daemon by another connection.
 */
typedef int remote_interrupt_fn(void *ctx, struct cay_error *err);
void remote_on_interrupt(struct remote *r, remote_interrupt_fn *fn, void *ctx);

/* For who waits himself, and found a signal there: as if a call had. */
int remote_interrupted(struct remote *r, struct cay_error *err);

/* What is asked. At most one of json, data and from. */
struct remote_ask {
	const char *method;
	const char *path;        /* with its query, encoded */
	const struct json *json; /* the body */
	bool streamed;           /* the body is all that can be read from from_fd, in chunks */
	int from_fd;
	bool events;  /* wants server-sent events */
	bool patient; /* no limit for how long nothing comes: something is being run */
	/* Of a body, in or out: how much has gone by. NULL: nobody wants to know. */
	void (*progress)(void *ctx, size_t bytes);
	void *progress_ctx;
};

/*
 * Each asks and has the whole answer taken, or fails; an error the daemon answers with is
 * the error, as it would be without a daemon. The connection is used again, and made anew
 * where it has to be.
 */

/* *ret is the caller's; NULL where there is no body (204). */
int remote_json(struct remote *r, const struct remote_ask *ask, struct json **ret,
		struct cay_error *err);

/* A piece of the body. 0, or -1 to stop. */
typedef int remote_body_fn(void *ctx, const char *data, size_t len, struct cay_error *err);
int remote_body(struct remote *r, const struct remote_ask *ask, remote_body_fn *fn, void *ctx,
		struct cay_error *err);

/* An event, data NULL where its text was no JSON object. 0, 1: this was the last, or -1. */
typedef int remote_event_fn(void *ctx, const char *name, const struct json *data,
			    struct cay_error *err);
/* The end of the stream before the last event is an error, unless may_end. */
int remote_events(struct remote *r, const struct remote_ask *ask, bool may_end, remote_event_fn *fn,
		  void *ctx, struct cay_error *err);

/* For a protocol that is not HTTP: the connection, which stays r's, and the key's header line. */
int remote_fd(const struct remote *r);
const struct remote_place *remote_place(const struct remote *r);
int remote_append_key(struct buf *head, struct cay_error *err);

/* The error of an answer whose body is this. Returns -1. */
int remote_refusal(int status, const char *body, size_t len, struct cay_error *err);

/* The same of the object {"error":{…}} itself. */
int remote_refusal_json(int status, const struct json *j, struct cay_error *err);

/* "/v1/sandboxes/ID" and what follows it; CAY_E_INVALID for what can't be an id or a name. */
int remote_sandbox_path(struct buf *path, const char *id, const char *rest, struct cay_error *err);
