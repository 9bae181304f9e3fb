/*
 * run_history.h: runs that are over, from the store, and lists of all.
 */
#pragma once

#include "api/router.h"
#include "store/runs.h"

struct exchange;
struct json;

extern const struct route route_run_list, route_run_get, route_run_events;

/* What is known of a run without its output; the caller frees it. */
struct json *run_json(const struct run_record *r);

/* Answers with a run that is over: its result where that was kept, else what is known of it. */
void run_history_answer(struct exchange *x, const char *id);
