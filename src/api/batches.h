/*
 * batches.h: POST /v1/batches: many runs in one call. {"runs":[…],"parallel":N}; each
 * result goes out as it comes, as a line of JSON or, if asked for, as an event "result":
 * {"index":3,"result":{…}}, or {"index":3,"error":{…}} for what could not be run.
 *
 * Runs wait for room within the caller's quota and the daemon's; those that are over a
 * quota of time (a minute's, a day's) are errors.
 */
#pragma once

#include "api/router.h"

#define BATCH_RUNS_MAX  10000
#define BATCH_MAX_BYTES ((size_t)64 << 20)

extern const struct route route_batch_create;
