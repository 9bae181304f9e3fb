/*
 * runs_impl.h: runs under way from the inside, for runs.c and run_queue.c alone.
 */
#pragma once

#include "api/run_stream.h"
#include "api/runs.h"
#include "base/loop.h"
#include "core/error.h"
#include "core/result.h"
#include "session/job.h"
#include "session/queue.h"
#include "store/keys.h"
#include "store/runs.h"

#include <stdbool.h>
#include <stdint.h>

#define RUN_BUCKETS 1024

struct run_entry {
	struct run_entry *next; /* in its bucket */
	struct runs *runs;
	struct job *job;          /* NULL: it has not begun */
	struct sandbox *on;       /* from its beginning on */
	struct sandbox *held;     /* of its scope; NULL */
	struct run_record record; /* as far as it is known before the end */
	char sandbox[ID_SIZE];    /* what record.sandbox points to */
	char message[sizeof(((struct result *)0)->message) + 64];
	struct run_stream stream; /* who hears of it */
	void (*ended)(void *ctx, struct json *result, const struct cay_error *err);
	void *ctx;
	/* Until it has begun: what it will be. In a sandbox that is decided when it begins. */
	struct job_order order;
	struct request_body *body;
	struct decision decision;
	struct key_quotas quotas;
	bool counted; /* as one of those at once */
	bool told;    /* of its start and output */
	/* While it waits for room. */
	struct queue_place place;
	struct loop_timer patience;
	uint64_t wait_ms, since_ns;
	size_t bytes;        /* of its request */
	size_t queued_bytes; /* of these, that are counted as waiting */
	int peer;            /* the caller's connection, our own copy; -1 */
	bool dropped;        /* it will not begin: refused says why, or it was cancelled */
	struct cay_error refused;
};

struct runs {
	struct api *api;
	struct run_entry *buckets[RUN_BUCKETS];
	size_t n_active;
	struct queue *queue;
	size_t queued_bytes;
	bool serving;
};

/* It begins, with all that it needs; 0 or -1. */
int run_begin(struct run_entry *e, struct cay_error *err);

/* Its end: everybody is told, and e is gone. res or err. */
void run_conclude(struct run_entry *e, const struct result *res, const struct cay_error *err);

/*
 * Room for one more: it is counted, or *ret_wait_ms is how long it may wait for that. -1: neither.
 */
int run_admit(struct api *api, const struct run_ask *ask, uint64_t *ret_wait_ms,
	      int64_t *ret_retry_s, struct cay_error *err);

/* Waits for wait_ms. What becomes of it is told as of one that began. */
int run_wait(struct run_entry *e, struct cay_error *err);

bool run_waits(const struct run_entry *e);

/* One that waits will not begin: refused, or NULL where it is cancelled. Told from the loop. */
void run_drop(struct run_entry *e, const struct cay_error *refused);

/* Whoever follows it is told that it waits. */
void run_tell_waiting(struct run_entry *e);

/* What it holds as one that waits, or may; before it is freed, too. */
void run_unwait(struct run_entry *e);
