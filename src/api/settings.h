/*
 * settings.h: the operator's settings at run time: a text that is laid over the files' (what it may
 * say: settings/live.h), kept in the store version by version, and in force for what begins from
 * then on.
 */
#pragma once

#include "core/error.h"

#include <stdbool.h>
#include <stdint.h>

struct api;
struct route;

struct live_state {
	int64_t version; /* the latest; 0: there is none */
	bool in_force;
	struct cay_error problem; /* where it is not: why */
};

extern const struct route route_settings_get, route_settings_put, route_settings_history;

/*
 * What was said before the daemon was started is in force again. Where it does not fit the files
 * any more they alone are, and the log says so.
 */
int settings_resume(struct api *api, struct cay_error *err);
