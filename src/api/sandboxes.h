/*
 * sandboxes.h: /v1/sandboxes: create, list, look, change, pause, resume, delete. What
 * runs there is in runs.c.
 */
#pragma once

#include "api/router.h"

extern const struct route route_sandbox_create, route_sandbox_list, route_sandbox_get,
	route_sandbox_patch, route_sandbox_delete, route_sandbox_pause, route_sandbox_resume;

struct api;
struct cay_error;
struct exchange;
struct sandbox;

/* The one that the path names, if the caller may see it; NULL: the error was answered. */
struct sandbox *sandbox_of(struct exchange *x);

/* Those that are there from before count for the quotas, too. */
int sandboxes_count(struct api *api, struct cay_error *err);

/* What to do when one has ended: ctx is the api. */
void sandbox_ended(void *ctx, const struct sandbox *s, const char *reason);
void sandbox_used(void *ctx, const struct sandbox *s, double cpu_ms);
