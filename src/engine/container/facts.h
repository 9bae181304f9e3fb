/*
 * facts.h: what a container's PID 1 found about itself, and whether that is what was asked for.
 * Judged inside before any program runs, and by the keeper, which knows the host. Pure.
 */
#pragma once

#include "core/error.h"
#include "core/result.h"
#include "engine/container/wire.h"
#include "policy/plan.h"

/* The controls without which nothing runs, degraded or not. 0 or CAY_E_NOT_ENFORCEABLE. */
int facts_hold(const struct wire_facts *f, const struct plan *p, const struct wire_setup *who,
	       struct cay_error *err);

/*
 * How the limits are held; what is not is an error, unless the plan allows that. host: namespaces
 * that it must not be in; NULL where its kernel may be another.
 */
int facts_judge(const struct wire_facts *f, const struct plan *p, const struct wire_setup *who,
		const uint64_t host[NAMESPACES], struct isolation *ret, struct cay_error *err);
