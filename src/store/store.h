/*
 * store.h: what the daemon remembers, in one SQLite file, which nobody but this
 * room knows. A store is used by one thread. Times are unix milliseconds; 0 in a
 * record's time means: not yet, or never.
 *
 * Two ways of writing. What is promised (keys, sandboxes, runs in the background)
 * is committed before the function returns, and outlives a kill -9; a key's
 * creation and end are on the disk as well. The history of runs, the audit log and
 * times of last use are gathered in one transaction, which store_flush() commits: the
 * caller has a timer for it. A crash loses those since the last one.
 *
 * Reading sees everything, also what is not committed.
 */
#pragma once

#include "core/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STORE_FILE "cay.db"

struct store;

/*
 * Opens DIR/cay.db, makes it (0600) where there is none, and brings its schema up
 * to date. DIR must be there. CAY_E_INTERNAL names the file and what is wrong with
 * it: damaged, no database of ours, written by a newer cay, not writable.
 */
int store_open(const char *dir, struct store **ret, struct cay_error *err);

/* Flushes what it can. */
void store_close(struct store *s);
void store_closep(struct store **s);

/*
 * Commits what was gathered. After a failure (a full disk) that is lost, which is
 * what the error says, and the store goes on.
 */
int store_flush(struct store *s, struct cay_error *err);

/* Whether there is something to flush. */
bool store_is_dirty(const struct store *s);

struct store_recovered {
	int64_t runs;    /* were under way: now interrupted */
	int64_t stopped; /* persistent sandboxes that were live: can be started again */
	int64_t lost;    /* others */
};

/* After a start, before anything else: nothing that was under way is any more. */
int store_recover(struct store *s, int64_t now_ms, struct store_recovered *ret,
		  struct cay_error *err);

/* What to forget: what is older, and what is more. 0: keep. */
struct retention {
	int64_t runs_age_ms, runs_max;
	int64_t audit_age_ms, audit_max;
	int64_t gone_age_ms; /* sandboxes that have ended */
};

/*
 * Forgets a part of that, in a time that a loop can bear. *ret_more: call again.
 * Expired idempotency keys go, too.
 */
int store_prune(struct store *s, const struct retention *keep, int64_t now_ms, bool *ret_more,
		struct cay_error *err);

/*
 * Where a list goes on. The first page has an empty cursor; each call puts in the
 * next one's, or empties it behind the last page. A cursor that is none of ours is
 * CAY_E_INVALID.
 */
#define PAGE_LIMIT_MAX 1000

struct page {
	unsigned limit; /* 0: 100; never more than PAGE_LIMIT_MAX */
	char cursor[64];
};
