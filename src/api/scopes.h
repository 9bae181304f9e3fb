/*
 * scopes.h: runs that name a scope, and the sandboxes that they find: the first makes it, later
 * ones have the same.
 */
#pragma once

#include "api/router.h"
#include "core/error.h"

struct api;
struct json;
struct run_ask;
struct decision;

extern const struct route route_scope_list, route_scope_end;

/*
 * Puts the sandbox of the run's scope into ask->on, made if it is not there, and takes out of the
 * body what was said of it. Nothing happens where the run names none. CAY_E_CONFLICT: it asks for
 * another than there is. CAY_E_POLICY, in any scope's sandbox: for more time or output than the
 * settings have.
 */
int scope_enter(struct api *api, struct run_ask *ask, struct cay_error *err);

/* The same for a dry run, which makes nothing: where there is none yet, *ret_json is what it would
 * be. */
int scope_enter_dry(struct api *api, struct run_ask *ask, const struct decision *decision,
		    struct json **ret_json, struct cay_error *err);
