/*
 * contexts.h: a sandbox's interpreters that remember: what there is, and what is said to them
 * besides code, which comes as runs.
 */
#pragma once

#include "api/router.h"

extern const struct route route_context_list, route_context_get, route_context_delete,
	route_context_interrupt, route_context_restart, route_context_input;
