/*
 * runs.h: the history of runs.
 */
#pragma once

#include "core/id.h"
#include "core/result.h"
#include "store/owner.h"
#include "store/store.h"

#include <stdbool.h>
#include <stdint.h>

#define RUN_RESULT_MAX (4u << 20) /* a longer result is not kept */

/* Strings are borrowed. */
struct run_record {
	char id[ID_SIZE]; /* run_… */
	struct owner owner;
	const char *sandbox;  /* NULL: an island of its own */
	const char *language; /* NULL: a bare argv */
	bool under_way;       /* then all below but the start is unknown */
	bool waits;           /* of one under way: for room; not kept */
	int64_t started_ms, ended_ms;
	enum status status;
	bool exited; /* exit_code says how */
	int exit_code;
	int signal; /* 0: none */
	const char *message;
	double wall_ms, cpu_ms;
	uint64_t memory_peak_bytes;
	bool background;
	bool result_kept;   /* known also where the result itself is not read */
	const char *result; /* JSON; NULL: not kept */
};

typedef void store_run_fn(void *ctx, const struct run_record *r);

/*
 * A run that begins or has ended; what began need not have been said. Gathered;
 * but one in the background is committed at once, because its id is promised.
 */
int store_run_put(struct store *s, const struct run_record *r, struct cay_error *err);

/* CAY_E_NOT_FOUND, also for another's. */
int store_run_get(struct store *s, const struct viewer *v, const char *id, store_run_fn *fn,
		  void *ctx, struct cay_error *err);

/* Latest first; of one sandbox, or (NULL) of all. Without results. */
int store_runs_list(struct store *s, const struct viewer *v, const char *sandbox, struct page *page,
		    store_run_fn *fn, void *ctx, struct cay_error *err);

/*
 * Drops the results of the runs that began first, until all that are kept have no more bytes
 * than that; the runs stay. Gathered. *ret_more: there was much, call again.
 */
int store_results_trim(struct store *s, int64_t max_bytes, bool *ret_more, struct cay_error *err);

/* What an owner's runs that began since then have used: where a quota goes on after a start. */
int store_runs_cpu_ms(struct store *s, const struct owner *o, int64_t since_ms, double *ret,
		      struct cay_error *err);
