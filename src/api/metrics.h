/*
 * metrics.h: GET /metrics, in the text format of Prometheus. What can be a label is
 * bounded: statuses, languages, error codes and operations are tables of ours, and what runs are
 * started by is the operator's.
 */
#pragma once

#include "api/router.h"
#include "store/runs.h"

struct exchange;
struct metrics;

extern const struct route route_metrics;

/* NULL: no memory. */
struct metrics *metrics_new(void);
void metrics_free(struct metrics *m);

/* A run has ended; start: result_start(), NULL where there is no result. */
void metrics_run(struct metrics *m, const struct run_record *r, const char *start);

/* A run waited for room, and begins. */
void metrics_waited(struct metrics *m, double ms);

/* An exchange is over. */
void metrics_exchange(struct metrics *m, const struct exchange *x);
