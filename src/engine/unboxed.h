/*
 * unboxed.h: a plan without an island: what it says of paths there, as it is on the host,
 * and those of its limits that need no cgroup.
 */
#pragma once

#include "base/strv.h"
#include "core/limits.h"
#include "engine/workspace.h"
#include "policy/plan.h"

/* A list of the plan's. 0 or -errno. */
int unboxed_words(struct strv *to, const struct workspace *w, const struct plan *p,
		  struct plan_list l);

/* Enters the plan's working directory by way of the workspace. 0 or -errno. */
int unboxed_enter(const struct workspace *w, const struct plan *p);

/* Of the calling process; 0 or -errno. */
int unboxed_limit(const struct limits *l);
