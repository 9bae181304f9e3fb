/*
 * proxy_head.h: what a program asks of the HTTP proxy, and what is said in answer. Pure.
 *
 * CONNECT HOST:PORT is a tunnel. METHOD http://HOST[:PORT]/… is one request, which is made
 * anew for the host: its own kind of target, Host by the URL, nothing that is meant for the
 * proxy, and "Connection: close", so that the answer ends with the connection and no second
 * request follows, which could be meant for another host. Its body follows as it came.
 */
#pragma once

#include "base/buf.h"
#include "base/http.h"
#include "core/egress.h"
#include "egress/authority.h"

#define PROXY_HEAD_MAX (64u << 10)
/* By so much what is sent on may be longer: Host, Connection, a space behind each colon. */
#define PROXY_HEAD_GROWS 1024

/* For http_parser_new(). */
extern const struct http_limits proxy_limits;

struct proxy_request {
	bool connect;
	struct authority to; /* always with a port */
	struct buf head;     /* to be sent there; empty where it is a tunnel */
};

void proxy_request_done(struct proxy_request *r);

/* 0, or the status to answer with; *ret_why: a line about it. */
int proxy_request_make(const struct http_head *h, struct proxy_request *ret, const char **ret_why);

/* Of a connection that was not to be: 403 where it was denied, 502 or 504 where it failed. */
int proxy_status(enum egress_why why);

/* Appends an answer that ends it: the status, and a line of text that says why. 0 or -errno. */
int proxy_answer(struct buf *out, int status, const char *why);
