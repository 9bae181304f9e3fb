/*
 * queue.h: who waits for room to run, and whose turn is next: one owner after the other, and of
 * one owner's one lane after the other (a sandbox of its own, or none), so that whoever asks for
 * much waits behind himself. Within a lane it is first come, first served.
 */
#pragma once

#include "core/error.h"
#include "core/id.h"
#include "store/owner.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct queue;
struct queue_lane;

/* Inside what waits; all zero but ctx where it is in no queue. */
struct queue_place {
	void *ctx; /* the caller's */
	struct queue_lane *lane;
	struct queue_place *next, *prev;
};

struct queue_bounds {
	uint64_t all, each; /* how many may wait: of all owners, and of one; 0: none */
};

/* NULL: no memory. */
struct queue *queue_new(void);

/* What still waits has no place any more, and is told nothing. */
void queue_free(struct queue *q);

/*
 * Whether one more may wait: CAY_E_AT_CAPACITY where there are too many of all,
 * CAY_E_RATE_LIMITED where there are too many of this owner's.
 */
int queue_check(const struct queue *q, const struct owner *o, const struct queue_bounds *max,
		struct cay_error *err);

/* Takes a place behind the owner's others of that lane. lane: an id, or "". -1: no memory. */
int queue_join(struct queue *q, const struct owner *o, const char *lane, struct queue_place *p,
	       struct cay_error *err);

/* Gives the place up; nothing happens where there is none. */
void queue_leave(struct queue *q, struct queue_place *p);

/* The next whose owner may run: it has left then, and its owner goes behind all others. NULL. */
typedef bool queue_may_fn(void *ctx, const struct queue_place *p);
struct queue_place *queue_next(struct queue *q, queue_may_fn *may, void *ctx);

/* Any one of them, which has left then; NULL: there is none. */
struct queue_place *queue_any(struct queue *q);

/* How many wait; before whom p has to come in its own lane. */
size_t queue_length(const struct queue *q);
size_t queue_ahead(const struct queue_place *p);
