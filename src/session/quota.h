/*
 * quota.h: who has how much at once, a minute and a day. Counted in memory; the
 * caller says what time it is (monotonic, in ms), so that tests need not wait.
 *
 * Runs a minute and CPU a day are those of any minute or day, not of the clock's:
 * what was counted is forgotten when it is that old, and never a bit earlier.
 */
#pragma once

#include "core/error.h"
#include "store/keys.h"
#include "store/owner.h"

#include <stdbool.h>
#include <stdint.h>

struct quota;

/*
 * total: what there is for all together, of parallel_runs and live_sandboxes; the
 * others say nothing there. 0 is not limited, there as everywhere. NULL: no memory.
 */
struct quota *quota_new(const struct key_quotas *total);
void quota_free(struct quota *q);

/*
 * One more run. CAY_E_RATE_LIMITED names the quota of the owner's that is used up,
 * CAY_E_AT_CAPACITY says that all together have as many as can be: nothing is
 * counted then, and *ret_retry_s is when it may be tried again. One that was taken
 * is given back by quota_end_run(), with the CPU time it used.
 */
int quota_take_run(struct quota *q, const struct owner *o, const struct key_quotas *limits,
		   int64_t now_ms, int64_t *ret_retry_s, struct cay_error *err);
void quota_end_run(struct quota *q, const struct owner *o, double cpu_ms, int64_t now_ms);

/* Whether one more could be had now, by how many there are at once alone. */
bool quota_has_room(struct quota *q, const struct owner *o, const struct key_quotas *limits);

/* Whether one more could be had now, by what was had in the last minute and day alone; as above. */
int quota_check_times(struct quota *q, const struct owner *o, const struct key_quotas *limits,
		      int64_t now_ms, int64_t *ret_retry_s, struct cay_error *err);

/* From now on there is that much for all together; who has more keeps it. */
void quota_set_total(struct quota *q, const struct key_quotas *total);

/* The same of sandboxes, which are not counted by time. */
int quota_take_sandbox(struct quota *q, const struct owner *o, const struct key_quotas *limits,
		       int64_t *ret_retry_s, struct cay_error *err);
void quota_end_sandbox(struct quota *q, const struct owner *o);

/* One that is there already, from before this process: no quota is asked. */
int quota_count_sandbox(struct quota *q, const struct owner *o, struct cay_error *err);

/* CPU time that was not a run's: a sandbox's own, or what the store knows from before. */
int quota_add_cpu(struct quota *q, const struct owner *o, double cpu_ms, int64_t now_ms,
		  struct cay_error *err);

/*
 * What is left of the day's CPU time, for the limit of a run that begins: a long
 * one would run far over. At least 1; INT64_MAX where it is not limited.
 */
int64_t quota_cpu_left_ms(struct quota *q, const struct owner *o, const struct key_quotas *limits,
			  int64_t now_ms);

struct quota_use {
	int64_t runs, sandboxes; /* now */
};

/* Of all together. */
struct quota_use quota_used_total(const struct quota *q);

/* Forgets owners of whom there is nothing left to know. How many there are then. */
size_t quota_tidy(struct quota *q, int64_t now_ms);
