/*
 * proxy.h: a program's connection to the HTTP proxy, until it is known where that leads, or to its
 * end where it leads nowhere.
 */
#pragma once

#include "base/buf.h"
#include "base/loop.h"
#include "egress/proxy_head.h"

#include <stdbool.h>
#include <stddef.h>

/* For the request's head, and for the program to read why it was refused. */
#define PROXY_HEAD_MS   10000
#define PROXY_LINGER_MS 2000

struct proxy;

struct proxy_calls {
	/* Once. proxy_open() or proxy_refuse() is to follow, now or later. */
	void (*asked)(void *ctx, const struct proxy_request *r);
	/* Nothing more will come of it; the last call. */
	void (*over)(void *ctx);
};

/* fd: non-blocking, stays the caller's. timers: another loop, or the same. NULL and errno. */
struct proxy *proxy_new(struct loop *loop, struct loop *timers, int fd,
			const struct proxy_calls *calls, void *ctx);
void proxy_free(struct proxy *p);

/* Answers, and calls over when that was read. why: one line. */
void proxy_refuse(struct proxy *p, int status, const char *why);

/*
 * There is somebody upstream: tells the program where it wants a tunnel. The socket is no longer
 * looked at here. first: what to send upstream before anything else, of which the last unseen
 * bytes are as they came from the program. 0 or -errno.
 */
int proxy_open(struct proxy *p, const struct buf **ret_first, size_t *ret_unseen);

/*
 * Bytes that came behind the head of a request that is no tunnel's. How many belong to its body,
 * all in front of the others; *ret_over: no more of them will. -1: they are none of HTTP.
 */
int proxy_body(struct proxy *p, const char *data, size_t len, size_t *ret_n, bool *ret_over);
