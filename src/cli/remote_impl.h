/* remote_impl.h: a connection as the halves of the client share it: who sends, who takes answers.
 */
#pragma once

#include "base/http.h"
#include "cli/remote.h"

#define PIECE_BYTES ((size_t)64 << 10)
#define REFUSAL_MAX ((size_t)64 << 10)

struct remote {
	struct remote_place place;
	int fd;      /* -1: it has to be made anew */
	int signals; /* a signalfd */
	int signal;
	remote_interrupt_fn *on_interrupt; /* NULL: SIGINT ends the call */
	void *interrupt_ctx;
	bool used; /* an answer came on this connection before */
	struct http_parser *parser;
	char piece[PIECE_BYTES];
};

/* Return -1; lost: and the connection is closed. */
int remote_no_memory(struct cay_error *err);
int remote_lost(struct remote *r, int why, struct cay_error *err);

/* What of events is possible now; 0: nothing within ms (-1: ever); -1. */
int remote_wait(struct remote *r, short events, int ms, struct cay_error *err);

/*
 * Sends it all, on a connection that is there. 0; 1: the daemon has something to say before
 * it is all sent, or does not listen any more; -1.
 */
int remote_send(struct remote *r, const struct remote_ask *ask, struct cay_error *err);
