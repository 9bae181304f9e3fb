/*
 * run_dry.h: `cay run --dry-run`: the plan in words or as JSON.
 */
#pragma once

#include "core/error.h"
#include "engine/engine.h"
#include "spec/runtime.h"

/* image: what the island would be made of, by name. */
int run_dry(const struct plan *plan, const struct mount_rules *rules, const struct runtime *runtime,
	    const char *image, const struct engine *engine, const struct decision *decision,
	    bool json, struct cay_error *err);
