#include "policy/bounds.h"

#include "base/attr.h"
#include "base/json.h"
#include "core/limit.h"
#include "spec/fields.h"

#include <stdio.h>
#include <string.h>

#define SETTER(name) static int name(struct reader *r, const struct json *v, struct cay_error *err)

static int set_bit(const struct json *v, const char *const *names, size_t n, unsigned *bits,
		   struct cay_error *err)
{
	const char *s = field_str(v, err);

	if (!s)
		return -1;
	for (size_t i = 0; i < n; i++)
		if (names[i] && strcmp(s, names[i]) == 0) {
			*bits |= 1u << i;
			return 0;
		}
	return field_invalid(err, "no such value");
}

/* An array of names, each a bit at its place in the list. */
static int read_bits(struct reader *r, const struct json *v, const char *const *names, size_t n,
		     unsigned *bits, struct cay_error *err)
{
	for (size_t i = 0; i < json_len(v); i++) {
		size_t back = reader_enter_at(r, i);

		if (set_bit(json_at(v, i), names, n, bits, err) < 0)
			return -1;
		reader_leave(r, back);
	}
	return 0;
}

SETTER(set_engines)
{
	const char *names[ENGINES] = {0};
	struct bounds *b = r->into;

	for (int e = ENGINE_AUTO + 1; e < ENGINES; e++)
		names[e] = spec_engine_name((enum spec_engine)e);
	b->has_engines = true;
	return read_bits(r, v, names, ARRAY_LEN(names), &b->engines, err);
}

SETTER(set_images)
{
	struct bounds *b = r->into;

	b->has_images = true;
	if (json_len(v) > BOUNDS_IMAGES_MAX)
		return field_too_many(err, BOUNDS_IMAGES_MAX);
	return field_strings(r, v, &b->images, err);
}

SETTER(set_mounts)
{
	static const char *const names[] = {
		[MOUNTS_NONE] = "none", [MOUNTS_READ] = "ro", [MOUNTS_WRITE] = "rw"};
	struct bounds *b = r->into;
	unsigned bit = 0;

	if (set_bit(v, names, ARRAY_LEN(names), &bit, err) < 0)
		return -1;
	for (int m = MOUNTS_NONE; m <= MOUNTS_WRITE; m++)
		if (bit == 1u << m)
			b->mounts = (enum bounds_mounts)m;
	return 0;
}

SETTER(set_networks)
{
	const char *names[NETWORK_MODES];
	struct bounds *b = r->into;

	for (int m = 0; m < NETWORK_MODES; m++)
		names[m] = network_mode_name((enum network_mode)m);
	b->has_networks = true;
	b->networks = 1u << NETWORK_NONE;
	return read_bits(r, v, names, NETWORK_MODES, &b->networks, err);
}

static int read_rules(struct reader *r, const struct json *v, struct strv *ret,
		      struct cay_error *err)
{
	if (json_len(v) > EGRESS_RULES_MAX)
		return field_too_many(err, EGRESS_RULES_MAX);
	for (size_t i = 0; i < json_len(v); i++) {
		size_t back = reader_enter_at(r, i);
		const char *text = field_str(json_at(v, i), err);
		struct domain_rule rule;
		char normal[DOMAIN_RULE_SIZE];

		if (!text || domain_rule_parse(text, &rule, err) < 0)
			return -1;
		domain_rule_text(&rule, normal);
		if (strv_add(ret, normal) < 0)
			return field_no_memory(err);
		reader_leave(r, back);
	}
	return 0;
}

SETTER(set_allow)
{
	struct bounds *b = r->into;

	b->has_allow = true;
	return read_rules(r, v, &b->allow, err);
}

SETTER(set_block)
{
	return read_rules(r, v, &((struct bounds *)r->into)->block, err);
}

SETTER(set_limits)
{
	struct bounds *b = r->into;
	const struct json *value;
	const char *name;
	void *at = NULL;

	while (json_next(v, &at, &name, &value)) {
		size_t back = reader_enter(r, name);

		if (field_limit(value, name, &b->maximum, err) < 0)
			return -1;
		reader_leave(r, back);
	}
	return 0;
}

static const struct field fields[] = {
	{"engines", TAKES_ARRAY, set_engines, 0}, {"images", TAKES_ARRAY, set_images, 0},
	{"mounts", TAKES_STR, set_mounts, 0},     {"networks", TAKES_ARRAY, set_networks, 0},
	{"allow", TAKES_ARRAY, set_allow, 0},     {"block", TAKES_ARRAY, set_block, 0},
	{"limits", TAKES_OBJECT, set_limits, 0},
};

int bounds_read(struct bounds *ret, const struct json *j, struct cay_error *err)
{
	struct reader r = {.into = ret};

	*ret = (struct bounds){0};
	if (field_check_kind(j, TAKES_OBJECT, err) < 0)
		return cay_wrap(err, "bounds");
	(void)reader_enter(&r, "bounds");
	if (fields_read(&r, fields, ARRAY_LEN(fields), j, err) < 0)
		return reader_fail(&r, err);
	return 0;
}

int bounds_parse(struct bounds *ret, const char *text, size_t len, struct cay_error *err)
{
	_cleanup_(json_freep) struct json *j = NULL;

	*ret = (struct bounds){0};
	if (fields_parse(text, len, BOUNDS_MAX_BYTES, &j, err) < 0)
		return cay_wrap(err, "bounds");
	return bounds_read(ret, j, err);
}

void bounds_done(struct bounds *b)
{
	strv_done(&b->images);
	strv_done(&b->allow);
	strv_done(&b->block);
}

static int denied(struct cay_error *err, const char *bound, const char *what)
{
	(void)cay_fail(err, CAY_E_POLICY, 0, "%s: not for this key", what);
	return cay_hint(err, "the key's bound %s says what it may have", bound);
}

static int check_engine(const struct bounds *b, const struct spec *spec, struct cay_error *err)
{
	enum spec_engine engine = spec->engine == ENGINE_AUTO ? ENGINE_NATIVE : spec->engine;
	char what[32];

	if (!b->has_engines || b->engines & 1u << engine)
		return 0;
	(void)snprintf(what, sizeof(what), "the engine %s", spec_engine_name(engine));
	return denied(err, "engines", what);
}

static int check_mounts(const struct bounds *b, const struct spec *spec, struct cay_error *err)
{
	bool any = spec->n_mounts > 0 || spec->workspace.source;
	bool writes = spec->workspace.source && spec->workspace.access == ACCESS_WRITE;

	for (size_t i = 0; i < spec->n_mounts; i++)
		writes |= spec->mounts[i].access == ACCESS_WRITE;
	if (b->mounts == MOUNTS_NONE && any)
		return denied(err, "mounts", "host directories");
	if (b->mounts == MOUNTS_READ && writes)
		return denied(err, "mounts", "writable host directories");
	return 0;
}

static int check_limits(const struct bounds *b, const struct spec *spec, struct cay_error *err)
{
	for (size_t i = 0; i < n_limit_rows; i++) {
		const struct limit_row *row = &limit_rows[i];
		uint64_t asked = limit_get(&spec->limits, row), max = limit_get(&b->maximum, row);
		char a[32], m[32];

		if (max && asked > max) {
			(void)cay_fail(err, CAY_E_POLICY, 0,
				       "the limit %s of %s is above the key's maximum of %s",
				       row->name, limit_format(row, asked, a, sizeof(a)),
				       limit_format(row, max, m, sizeof(m)));
			return cay_hint(err, "ask for less, or leave limits.%s out", row->name);
		}
	}
	return 0;
}

int bounds_check(const struct bounds *b, const struct spec *spec, struct cay_error *err)
{
	if (check_engine(b, spec, err) < 0 || check_mounts(b, spec, err) < 0)
		return -1;
	return check_limits(b, spec, err);
}

void bounds_lower(const struct bounds *b, struct limits *maximum)
{
	for (size_t i = 0; i < n_limit_rows; i++) {
		const struct limit_row *row = &limit_rows[i];
		uint64_t ours = limit_get(&b->maximum, row), theirs = limit_get(maximum, row);

		if (ours && (theirs == 0 || ours < theirs))
			limit_set(maximum, row, ours);
	}
}
