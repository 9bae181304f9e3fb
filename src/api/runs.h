/*
 * runs.h: POST /v1/runs and what can be done with a run that is under way or over.
 */
#pragma once

#include "api/router.h"

struct api;
struct runs;

extern const struct route route_run_create, route_run_list, route_run_get, route_run_cancel,
	route_run_events, route_sandbox_run;

/* The runs of a daemon. NULL: no memory. */
struct runs *runs_new(struct api *api);
void runs_free(struct runs *r);

/* How many are under way. */
size_t runs_active(const struct runs *r);

/* Ends all that is under way. */
void runs_cancel_all(struct runs *r);
