/*
 * network.h: which network a program gets: by what is asked for, what the operator allows
 * (settings.network_*, settings.tiers), and what the caller's key may have (settings.key).
 * A call can only narrow: what it asks for by name and may not have is an error. Pure.
 */
#pragma once

#include "core/error.h"
#include "settings/settings.h"
#include "spec/spec.h"

#include <stdbool.h>

/*
 * *ret is all that was decided, written as if it had been asked for: asked again it gives the
 * same. The caller has it to network_spec_done(). CAY_E_POLICY names what may not be had;
 * CAY_E_INVALID: the request is at odds with itself, or lists no domains and nobody else does;
 * CAY_E_TOO_LARGE: too many rules, all together.
 */
int network_decide(const struct spec *spec, const struct settings *s, struct network_spec *ret,
		   struct cay_error *err);

/*
 * Whether each of these rules is covered by one of most. 1; or 0, where *ret_rule is the first that
 * is not; or -1.
 */
int network_rules_within(const struct strv *rules, const struct strv *most, const char **ret_rule,
			 struct cay_error *err);

/* Which would be had; none where that would be an error. */
enum network_mode network_in_sight(const struct spec *spec, const struct settings *s);
