/*
 * network_plan.h: what of a plan's network the native engine can do.
 */
#pragma once

#include "core/error.h"
#include "policy/plan.h"

/* CAY_E_UNSUPPORTED unless it can be had. */
int network_plan_check(const struct plan *p, struct cay_error *err);
