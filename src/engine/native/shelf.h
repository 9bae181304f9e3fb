/*
 * shelf.h: whole islands that a resident launcher has made ahead, each used once. A shelf has
 * those of one kind: plans that fit each other's islands (plan_fits_island).
 *
 * A kind that is asked for is remembered; asked for again before it is forgotten, it gets a
 * shelf. One that is found empty shall have twice as many; when nobody asks, half of them go each
 * few seconds, and at last the shelf. Those that were named stay. The islands are made and taken
 * down one by one, when the launcher has nothing else to do (launcher_restock).
 *
 * Islands of an image hold no lock on it while they wait, so that it can be removed: whether its
 * root is still there is looked at when one is taken.
 */
#pragma once

#include "core/error.h"
#include "policy/plan.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SHELVES_MAX 16 /* and as many kinds that were asked for once */
#define SHELF_MAX   16 /* islands that a kind can have, but for one that was named with more */
#define SHELF_FIRST 2
#define AHEAD_MAX   64 /* islands of all kinds */
#define WAITERS_MAX 2  /* of a kind on which an interpreter waits: waiter.h */

/* So many of no use, one after the other, and no more are made until it is forgotten. */
#define SHELF_DUDS_MAX 6

#define SHELF_EASE_MS   5000
#define SHELF_FORGET_MS 60000
#define SHELF_WEIGH_MS  1000

/*
 * What one takes in memory while it waits, with no interpreter on it. Measured with 62 of them: 330
 * KiB in the kernel's slabs, 50 for page tables and stack, and 50 to 130 of its own; all that its
 * cgroup counts is the last.
 */
#define AHEAD_BYTES (512u << 10)

struct launched;
struct launcher;
struct zygote_kind;

struct shelf {
	struct plan *plan;                   /* what its islands are made for: plan_strip() */
	struct zygote_kind *kind;            /* who bears them: zygote.h; NULL: the launcher */
	struct launched *islands[AHEAD_MAX]; /* the oldest first */
	size_t n, target;
	size_t least;       /* 0: nobody has named it */
	int64_t used_ms;    /* when it was last asked for */
	int64_t eased_ms;   /* when it was last looked at for that */
	bool failed;        /* none can be made at present */
	unsigned duds;      /* found of no use, since one was good */
	uint64_t own_bytes; /* where an interpreter is: the most that one had of its own; 0: unknown
			     */
	int64_t weighed_ms;
};

struct shelves {
	struct shelf *items[2 * SHELVES_MAX];
	size_t n;
	size_t n_islands;
	uint64_t memory_bytes; /* what all islands, and zygotes, may take; UINT64_MAX: all there is
				*/
};

/* Times are of clock_now_ms(). */

/* Islands like this one are kept for good, n of them at least. None is made yet. */
int shelves_name(struct launcher *l, const struct plan *like, size_t n, int64_t now_ms,
		 struct cay_error *err);

/* One for this plan, by a zygote of this kind or (NULL) by none, if there is such; and notes that
 * it was asked for. */
bool shelves_take(struct launcher *l, const struct plan *p, struct zygote_kind *kind,
		  int64_t now_ms, struct launched *ret);

/* Makes one island, or takes one down. 0, 1 where nothing is to be done, or -1. */
int shelves_restock(struct launcher *l, int64_t now_ms, struct cay_error *err);

/* Some zygote has come or gone: what could not be made is tried again, what is out of date goes. */
void shelves_retry(struct shelves *s);

/* Whether there is something that goes with time: look again after SHELF_EASE_MS. */
bool shelves_ease_later(const struct shelves *s);

void shelves_done(struct launcher *l);
