/*
 * request.h: a request as handlers see it: its path in segments, its query, headers
 * and who sent it. Everything is decoded once, here, and stays until the exchange
 * is closed.
 */
#pragma once

#include "api/router.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct http_head;

#define REQUEST_QUERY_MAX 32
#define REQUEST_ID_SIZE   65

struct peer {
	bool local; /* by a unix socket: these are the kernel's word */
	uid_t uid;
	gid_t gid;
	pid_t pid;
	int fd;           /* the connection itself, borrowed */
	char address[64]; /* "127.0.0.1:4711", "[::1]:4711", "unix" */
};

struct query_item {
	const char *name, *value;
};

struct request {
	const char *method;
	const char *path; /* as sent, without the query; for logs */
	const char *segments[ROUTE_SEGMENTS_MAX];
	size_t n_segments;
	struct query_item query[REQUEST_QUERY_MAX];
	size_t n_query;
	const struct http_head *head;
	const struct peer *peer;
	struct route_match match;
	char id[REQUEST_ID_SIZE]; /* X-Request-Id */
	/* The whole body, where the route does not stream it; NUL-ended, never NULL then. */
	const char *body;
	size_t body_len;
	char *text; /* what segments and query point into */
};

/*
 * Splits and decodes the URL of head. Refused (-1, *ret_why says why): other forms
 * than a path, escapes that are none or stand for NUL, more parts than there is room
 * for, a query parameter twice.
 */
int request_split(struct request *r, const struct http_head *head, const char **ret_why);
void request_release(struct request *r);

/* The first of that name, in any case, or NULL. */
const char *request_header(const struct request *r, const char *name);
/* Decoded, "+" as a space; "" where it has no value, NULL where it is not there. */
const char *request_query(const struct request *r, const char *name);
/* The segment that stands for {name} in the route's pattern. */
const char *request_param(const struct request *r, const char *name);

/* The client's own id if it is harmless ([A-Za-z0-9_-]{1,64}), else a new one. */
void request_make_id(const char *given, char id[REQUEST_ID_SIZE]);

/* Whether the method may change something: anything but GET and HEAD. */
bool request_mutates(const struct request *r);
