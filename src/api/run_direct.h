/*
 * run_direct.h: runs without a sandbox, as far as they are this process's business: whether
 * it comes to that, and what is said about it. Whom they run as is decided by the launcher,
 * which does not take our word: engine/native/bare_user.h.
 */
#pragma once

#include "core/decision.h"
#include "core/error.h"

#include <stddef.h>

struct api;
struct job_order;
struct peer;
struct run_ask;

/* By policy/mode.h; from here on the spec's engine is what it comes to. */
int run_decide(const struct api *api, const struct run_ask *ask, struct decision *ret,
	       struct cay_error *err);

/* Puts it into the order; the peer's connection is borrowed. */
void run_direct_order(const struct decision *d, const struct peer *peer, struct job_order *o);

/* Into the daemon's log, where it has no sandbox. */
void run_direct_log(const struct job_order *o, const struct peer *peer, const char *id);

/* Whom it would run as, as a number or a name; refused as the launcher would refuse it. */
int run_direct_user(const struct api *api, const struct peer *peer, char *ret, size_t size,
		    struct cay_error *err);
