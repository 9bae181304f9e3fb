#include "policy/tier.h"

#include "core/limit.h"
#include "policy/bounds.h"

#include <stdio.h>

#define SAYS_MAX 2

/* One who has a say: the request, and the key. */
struct says {
	const char *whose; /* "the request's" */
	const char *name;
	const struct tier_settings *is;
};

static size_t who_says(const struct spec *spec, const struct settings *s, struct says ret[SAYS_MAX])
{
	const struct bounds *b = s->key;
	size_t n = 0;

	if (spec->has_tier)
		ret[n++] = (struct says){"request", tier_name(spec->tier), &s->tiers[spec->tier]};
	if (b && b->has_tier)
		ret[n++] = (struct says){"key", tier_name(b->tier), &s->tiers[b->tier]};
	return n;
}

static int above(struct cay_error *err, const struct says *t, const char *what, const char *most)
{
	(void)cay_fail(err, CAY_E_POLICY, 0, "%s: above what the %s's tier brings: %s has %s", what,
		       t->whose, t->name, most);
	return cay_hint(err, "[tier %s] in the settings says what it brings", t->name);
}

static int check_engine(const struct spec *spec, const struct says *t, struct cay_error *err)
{
	enum spec_engine e = spec->engine == ENGINE_AUTO ? ENGINE_NATIVE : spec->engine;
	char what[40];

	if (t->is->engines & 1u << e)
		return 0;
	(void)snprintf(what, sizeof(what), "the engine %s", spec_engine_name(e));
	return above(err, t, what, "others");
}

static int check_mounts(const struct spec *spec, const struct says *t, struct cay_error *err)
{
	bool any = spec->n_mounts > 0 || spec->workspace.source;
	bool writes = spec->workspace.source && spec->workspace.access == ACCESS_WRITE;

	for (size_t i = 0; i < spec->n_mounts; i++)
		writes |= spec->mounts[i].access == ACCESS_WRITE;
	if (any && t->is->mounts == TIER_MOUNTS_NONE)
		return above(err, t, "host directories", "none");
	if (writes && t->is->mounts == TIER_MOUNTS_READ)
		return above(err, t, "writable host directories", "read-only ones");
	return 0;
}

static int check_limits(const struct spec *spec, const struct says *t, struct cay_error *err)
{
	for (size_t i = 0; i < n_limit_rows; i++) {
		const struct limit_row *row = &limit_rows[i];
		uint64_t asked = limit_get(&spec->limits, row);
		uint64_t max = limit_get(&t->is->limits, row);
		char a[32], m[32], what[96];

		if (max == 0 || asked <= max)
			continue;
		(void)snprintf(what, sizeof(what), "the limit %s of %s", row->name,
			       limit_format(row, asked, a, sizeof(a)));
		return above(err, t, what, limit_format(row, max, m, sizeof(m)));
	}
	return 0;
}

int tier_check_limits(const struct spec *spec, const struct settings *s, struct cay_error *err)
{
	struct says says[SAYS_MAX];
	size_t n = who_says(spec, s, says);

	for (size_t i = 0; i < n; i++)
		if (check_limits(spec, &says[i], err) < 0)
			return -1;
	return 0;
}

int tier_check(const struct spec *spec, const struct settings *s, struct cay_error *err)
{
	struct says says[SAYS_MAX];
	size_t n = who_says(spec, s, says);

	for (size_t i = 0; i < n; i++)
		if (check_engine(spec, &says[i], err) < 0 ||
		    check_mounts(spec, &says[i], err) < 0 || check_limits(spec, &says[i], err) < 0)
			return -1;
	return 0;
}

static uint64_t lower(uint64_t v, uint64_t max)
{
	return max && (v == 0 || v > max) ? max : v;
}

int tier_limits(const struct spec *spec, const struct settings *s, struct limits *ret,
		struct cay_error *err)
{
	struct says says[SAYS_MAX];
	size_t n = who_says(spec, s, says);

	for (size_t i = 0; i < n_limit_rows; i++) {
		const struct limit_row *row = &limit_rows[i];
		uint64_t asked = limit_get(&spec->limits, row);
		uint64_t max = limit_get(&s->maximum, row);
		uint64_t brought =
			spec->has_tier ? limit_get(&s->tiers[spec->tier].limits, row) : 0;
		uint64_t v = asked ? asked : brought ? brought : limit_get(&s->limits, row);
		char a[32], m[32];

		if (max && asked > max)
			return cay_fail(err, CAY_E_POLICY, 0,
					"the limit %s of %s is above the operator's maximum of %s",
					row->name, limit_format(row, asked, a, sizeof(a)),
					limit_format(row, max, m, sizeof(m)));
		v = lower(v, max);
		for (size_t k = 0; k < n; k++)
			v = lower(v, limit_get(&says[k].is->limits, row));
		limit_set(ret, row, v);
	}
	return 0;
}

uint64_t tier_timeout_ms(const struct spec *spec, const struct settings *s, uint64_t unsaid_ms)
{
	struct says says[SAYS_MAX];
	size_t n = who_says(spec, s, says);
	uint64_t brought = spec->has_tier ? s->tiers[spec->tier].limits.timeout_ms : 0;
	uint64_t v = lower(brought ? brought : unsaid_ms, s->maximum.timeout_ms);

	for (size_t k = 0; k < n; k++)
		v = lower(v, says[k].is->limits.timeout_ms);
	return v;
}

const char *tier_without_direct(const struct spec *spec, const struct settings *s)
{
	struct says says[SAYS_MAX];
	size_t n = who_says(spec, s, says);

	for (size_t i = 0; i < n; i++)
		if (!(says[i].is->engines & 1u << ENGINE_DIRECT))
			return says[i].name;
	return NULL;
}

const char *tier_in_force(const struct spec *spec, const struct settings *s)
{
	struct says says[SAYS_MAX];

	return who_says(spec, s, says) > 0 ? says[0].name : NULL;
}
