/*
 * bounds.h: what a key may ask for at all. Bounds only ever take away: what the
 * operator's settings forbid stays forbidden. Pure.
 *
 * As JSON, all of it optional: {"engines":["native"], "images":["host"],
 * "mounts":"none"|"ro"|"rw", "networks":["none","allowlist"],
 * "allow":["*.example.org"], "block":["ads.example.org"],
 * "limits":{"memory":"1g","timeout":60}}. What is left out is not bounded.
 */
#pragma once

#include "base/strv.h"
#include "core/egress.h"
#include "core/error.h"
#include "core/limits.h"
#include "spec/spec.h"

#include <stdbool.h>
#include <stddef.h>

#define BOUNDS_MAX_BYTES  (64u << 10)
#define BOUNDS_IMAGES_MAX 256

enum bounds_mounts { MOUNTS_AS_SET, MOUNTS_NONE, MOUNTS_READ, MOUNTS_WRITE };

struct bounds {
	bool has_engines;
	unsigned engines; /* bits of enum spec_engine */
	bool has_images;
	struct strv images; /* globs of references; "host" is this machine's own */
	enum bounds_mounts mounts;
	bool has_networks;
	unsigned networks; /* bits of enum network_mode; none is always among them */
	bool has_allow;
	struct strv allow, block; /* rules for domains, as domain_rule_text() writes them */
	struct limits maximum;    /* 0: not bounded */
	/* No part of the JSON, but the key's own: the most that its holders can have. */
	bool has_tier;
	enum tier tier;
};

/* The caller has *ret to bounds_done(), also after a failure. CAY_E_INVALID names the field. */
int bounds_parse(struct bounds *ret, const char *text, size_t len, struct cay_error *err);

struct json;
int bounds_read(struct bounds *ret, const struct json *j, struct cay_error *err);

void bounds_done(struct bounds *b);

/*
 * 0, or CAY_E_POLICY that names the bound. The image is image_may_use()'s to judge, the network
 * network_decide()'s.
 */
int bounds_check(const struct bounds *b, const struct spec *spec, struct cay_error *err);

/*
 * Lowers the operator's maxima (settings.maximum) to the key's, for plan_make():
 * what is not asked for gets no more than the key may have, either.
 */
void bounds_lower(const struct bounds *b, struct limits *maximum);
