/*
 * docker.h: a blocking client of Docker's Engine API over a unix socket; Podman's service speaks
 * it, too. No thread, no global state: a forked child may open its own. What the other side
 * answers is foreign: everything has a bound, in bytes and in time.
 *
 * One connection, used again and again, made anew where it has to be; a hijacked one is given
 * away. Errors are the caller's to pass on: who is there, what it refused, and what to do.
 */
#pragma once

#include "base/buf.h"
#include "core/error.h"
#include "spec/spec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json;

/* API versions are 1.N; this is N. What is below the least is too old for us. */
#define DOCKER_API_LEAST 41
#define DOCKER_API_MOST  44

#define DOCKER_CALL_MS     60000       /* of a whole call, where the ask says nothing */
#define DOCKER_ANSWER_MAX  (16u << 20) /* of what is kept of an answer: JSON */
#define DOCKER_REFUSAL_MAX (64u << 10) /* of what is kept of an error */
#define DOCKER_LINE_MAX    (1u << 20)  /* an object of a stream of them */
#define DOCKER_EARLY_MAX   (64u << 10) /* what can come behind the head of a hijack's answer */

/* Where an engine listens. */
struct docker_place {
	enum spec_engine engine; /* ENGINE_DOCKER or ENGINE_PODMAN: whom errors speak of */
	char path[108];
};

/* "Docker", "Podman". */
const char *docker_name(enum spec_engine engine);

struct docker;

/*
 * Connects and agrees on a version. CAY_E_ENGINE, with what to do about it: no socket, nobody
 * there, no permission, too old, too new, not an engine.
 */
int docker_open(const struct docker_place *place, struct docker **ret, struct cay_error *err);
void docker_free(struct docker *d);
void docker_freep(struct docker **d);

/* Of what has been agreed on: N of 1.N, and whether it is Podman that answers. */
int docker_api(const struct docker *d);
bool docker_is_podman(const struct docker *d);
const struct docker_place *docker_place(const struct docker *d);

/* A call that is under way fails when fd can be read from, and docker_cancelled() says so; -1. */
void docker_cancel_by(struct docker *d, int fd);
bool docker_cancelled(const struct docker *d);

/* What is asked. At most one of json, data and streamed. */
struct docker_ask {
	const char *method;
	const char *path;        /* behind the version: "/containers/json?…", encoded */
	const struct json *json; /* the body */
	const void *data;        /* another body: a tar */
	size_t len;
	bool streamed; /* the body is all that can be read from from_fd */
	int from_fd;
	/*
	 * The longest time for it all; where bytes are passed on as they come, for the next of
	 * them. 0: DOCKER_CALL_MS; -1: as long as it takes.
	 */
	int timeout_ms;
	const char *header; /* another line of the head, with its CR LF; NULL */
	const char *what;   /* of errors: "create a container" */
};

/*
 * Asks and takes the whole answer. *ret (which may be NULL) is the caller's; it is NULL where
 * there is no body. 304 (it is so already) is success.
 */
int docker_json(struct docker *d, const struct docker_ask *ask, struct json **ret,
		struct cay_error *err);

/* The body as it comes. fn: 0, or -1 with err to stop. */
typedef int docker_bytes_fn(void *ctx, const char *data, size_t len, struct cay_error *err);
int docker_bytes(struct docker *d, const struct docker_ask *ask, docker_bytes_fn *fn, void *ctx,
		 struct cay_error *err);

/* A body of objects, one a line. fn: 0, 1: enough, or -1 with err. */
typedef int docker_object_fn(void *ctx, const struct json *object, struct cay_error *err);
int docker_objects(struct docker *d, const struct docker_ask *ask, docker_object_fn *fn, void *ctx,
		   struct cay_error *err);

/*
 * A connection that is no HTTP any more: both directions raw, the other side's end of writing
 * is ours by shutdown(). Blocking or not is as it was made: non-blocking. early is what was read
 * already and comes before all else.
 */
struct docker_stream {
	int fd;
	struct buf early;
};

#define DOCKER_STREAM ((struct docker_stream){.fd = -1, .early = BUF(DOCKER_EARLY_MAX)})
void docker_stream_done(struct docker_stream *s);

/* ret was initialised by DOCKER_STREAM. d goes on with a new connection. */
int docker_hijack(struct docker *d, const struct docker_ask *ask, struct docker_stream *ret,
		  struct cay_error *err);

/*
 * A call whose answer may take as long as a container runs, on a connection of its own.
 * docker_begin() returns when the head of the answer is there; fd can be read from when there is
 * more, and docker_later() says 1 and gives the object when it is whole, 0 when it is not yet.
 */
struct docker_later {
	int fd;
	struct docker *own;
	struct buf body;
};

#define DOCKER_LATER ((struct docker_later){.fd = -1, .body = BUF(DOCKER_REFUSAL_MAX)})
int docker_begin(struct docker *d, const struct docker_ask *ask, struct docker_later *ret,
		 struct cay_error *err);
int docker_later(struct docker_later *l, struct json **ret, struct cay_error *err);
void docker_later_done(struct docker_later *l);

/* The error an engine refused something with (docker_refusal.c). Returns -1. */
int docker_refused(enum spec_engine engine, const char *what, int status, const char *body,
		   size_t len, struct cay_error *err);
