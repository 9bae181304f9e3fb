/*
 * router.h: which handler a request is for. An operation of the API is one row and
 * one function:
 *
 *	const struct route route_file_get = {
 *		.method = "GET", .pattern = "/v1/sandboxes/{id}/files", .handle = file_get,
 *		.name = "file.get",
 *	};
 *
 * A pattern's {name} stands for one segment, which is not empty. The first row that
 * fits is taken; a HEAD is answered by the row of GET.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct exchange;

enum route_flags {
	/* Anybody may: no authorization. */
	ROUTE_PUBLIC = 1 << 0,
	/* The handler is called at the head and gets the body in pieces, by on_body. */
	ROUTE_STREAMS_BODY = 1 << 1,
	/*
	 * A TCP client that closes its side while the answer is pending has gone away
	 * (see exchange.h). For what costs much and is useless without somebody who reads.
	 */
	ROUTE_CANCELS_ON_FIN = 1 << 2,
	/* Answers in pieces, always: there is no answer to be kept for an Idempotency-Key. */
	ROUTE_STREAMS_ANSWER = 1 << 3,
	/* The answer has a secret in it: it is never kept. */
	ROUTE_ANSWERS_SECRET = 1 << 4,
};

struct route {
	const char *method;
	const char *pattern;
	void (*handle)(struct exchange *x);
	unsigned flags;
	size_t max_body;  /* bytes; 0: the server's usual maximum */
	const char *name; /* for the audit log and metrics: "run.create" */
};

#define ROUTE_SEGMENTS_MAX 16
#define ROUTE_PARAMS_MAX   4
#define ROUTE_ALLOW_SIZE   64

/* A decoded segment of a path, or of a pattern. */
struct segment {
	const char *text;
	size_t len;
};

struct route_match {
	const struct route *route;              /* NULL: none */
	struct segment names[ROUTE_PARAMS_MAX]; /* of the pattern's parameters, not NUL-ended */
	const char *values[ROUTE_PARAMS_MAX];
	size_t n_params;
	char allow[ROUTE_ALLOW_SIZE]; /* without a route: "GET, HEAD" when the path is known, else
					 "" */
};

/* segments are decoded, n of them. Whether there is a route. */
bool route_find(const struct route *const *routes, size_t n_routes, const char *method,
		const char *const *segments, size_t n, struct route_match *ret);

/* Of a match: the parameter of that name, or NULL. */
const char *route_param(const struct route_match *m, const char *name);
