/*
 * tier.h: what the tiers of a request and of its caller's key bring ([tier NAME]), and what they
 * keep from it. A request's tier says what it gets where it does not ask, and the most that it can
 * get; a key's is only the latter. (Their networks are policy/network.h's.) Pure.
 */
#pragma once

#include "core/error.h"
#include "core/limits.h"
#include "settings/settings.h"
#include "spec/spec.h"

/* CAY_E_POLICY: engine, mounts or limits that are asked for are above what a tier brings. */
int tier_check(const struct spec *spec, const struct settings *s, struct cay_error *err);

/* The same of limits alone: for what runs where the rest was decided. */
int tier_check_limits(const struct spec *spec, const struct settings *s, struct cay_error *err);

/*
 * The limits it gets: what was asked for, else what its tier brings, else the setting; never above
 * the operator's maximum, where asking for more is CAY_E_POLICY, nor above a tier's.
 */
int tier_limits(const struct spec *spec, const struct settings *s, struct limits *ret,
		struct cay_error *err);

/* The time of what says none and would get unsaid_ms. */
uint64_t tier_timeout_ms(const struct spec *spec, const struct settings *s, uint64_t unsaid_ms);

/* The name of a tier, of the request's or the key's, that has no engine direct; or NULL. */
const char *tier_without_direct(const struct spec *spec, const struct settings *s);

/* The request's tier, else the key's; NULL: there is none. */
const char *tier_in_force(const struct spec *spec, const struct settings *s);
