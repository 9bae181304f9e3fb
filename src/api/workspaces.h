/*
 * workspaces.h: workspaces that have a name: they outlive the sandboxes that use them, one at a
 * time.
 */
#pragma once

#include "api/router.h"

struct api;
struct cay_error;
struct workspace_record;

extern const struct route route_named_create, route_named_list, route_named_get, route_named_remove,
	route_named_reset, route_named_snapshot, route_named_forget, route_named_restore,
	route_named_archive;

/* The one that the path names, if the caller may know of it. */
int workspace_find(struct exchange *x, struct workspace_record *ret, struct cay_error *err);

/* Those that nobody used for as long as the operator lets them stay. */
void workspaces_expire(struct api *api);
