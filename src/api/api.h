/*
 * api.h: what the handlers of one daemon share.
 */
#pragma once

#include "base/loop.h"
#include "session/job.h"
#include "settings/settings.h"
#include "store/owner.h"

#include <stdbool.h>

struct cay_error;
struct runs;
struct sandboxes;
struct server;
struct terminals;

struct api {
	struct loop *loop; /* place.loop */
	struct settings settings;
	struct job_place place; /* where programs run */
	struct server *server;
	struct runs *runs;
	struct sandboxes *sandboxes;
	struct terminals *terminals;
	bool draining; /* no new work is taken */
};

struct exchange;

/* Of the exchange's server. */
struct api *api_of(const struct exchange *x);

/* Who asks, and what they may see. */
struct viewer api_viewer(const struct exchange *x);

/* CAY_E_AT_CAPACITY while the daemon ends: no new work is taken. */
int api_check_open(const struct exchange *x, struct cay_error *err);

/* Every operation there is; ends with a NULL. */
extern const struct route *const api_routes[];
