/*
 * docker_impl.h: a connection as the halves of the client share it: who connects and sends
 * (docker_send.c), who takes answers (docker.c).
 */
#pragma once

#include "base/http.h"
#include "engine/container/docker.h"

#define PIECE_BYTES ((size_t)32 << 10)
#define HEAD_MAX    ((size_t)32 << 10)

struct docker {
	struct docker_place place;
	int fd; /* -1: it has to be made anew */
	int cancel_fd;
	bool cancelled;
	bool used; /* a call was made on this connection before */
	bool podman;
	int api; /* 0: not agreed on yet */
	int timeout_ms;
	int64_t until_ms; /* the end of this wait; -1: none */
	struct http_parser *parser;
	char piece[PIECE_BYTES];
};

/* Who takes an answer. */
struct taker {
	const struct docker_ask *ask;
	/* A piece of the body; NULL: nobody wants it. */
	int (*take)(struct taker *t, const char *data, size_t len, struct cay_error *err);
	int (*head)(struct docker *d, const struct http_head *head); /* or NULL */
	struct docker_stream *hijack; /* gets the connection, where the status says it may */
	struct buf refusal;
	struct buf *into;
	docker_bytes_fn *bytes_fn;
	docker_object_fn *object_fn;
	void *ctx;
	int status;  /* 0: there is no head yet */
	bool passes; /* the body is passed on as it comes */
	bool stop;   /* the rest is of no interest */
};

/* NULL: no memory. Not connected yet. */
struct docker *docker_new(const struct docker_place *place);

/* Return -1; the last two close the connection. */
int docker_no_memory(const struct docker *d, struct cay_error *err);
int docker_lost(struct docker *d, int why, const char *what, struct cay_error *err);
int docker_not_an_engine(struct docker *d, const char *why, struct cay_error *err);

int docker_ensure_connected(struct docker *d, struct cay_error *err);
void docker_set_deadline(struct docker *d);

/* What of events is possible now; -1. */
int docker_wait_for(struct docker *d, short events, const char *what, struct cay_error *err);

/* 0; 1: there is an answer before it is all sent, or nobody listens any more; -1. */
int docker_send(struct docker *d, const struct taker *t, struct cay_error *err);
