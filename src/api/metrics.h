/*
 * metrics.h: GET /metrics, in the text format of Prometheus. What can be a label is
 * bounded: statuses, languages, error codes and operations are tables of ours.
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

/* A run has ended. */
void metrics_run(struct metrics *m, const struct run_record *r);

/* An exchange is over. */
void metrics_exchange(struct metrics *m, const struct exchange *x);
