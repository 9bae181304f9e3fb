#include "policy/network.h"

#include "base/attr.h"
#include "core/domain.h"
#include "policy/bounds.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Rules as they are compared. */
struct rules {
	struct domain_rule *items;
	size_t len;
};

static void rules_done(struct rules *r)
{
	free(r->items);
}

static int no_memory(struct cay_error *err)
{
	return cay_fail(err, CAY_E_INTERNAL, ENOMEM, "decide on the network");
}

static int rules_read(const struct strv *list, struct rules *ret, struct cay_error *err)
{
	ret->items = calloc(list->len + 1, sizeof(*ret->items));
	if (!ret->items)
		return no_memory(err);
	for (; ret->len < list->len; ret->len++)
		if (domain_rule_parse(list->items[ret->len], &ret->items[ret->len], err) < 0)
			return -1;
	return 0;
}

static bool rules_cover(const struct rules *outer, const struct domain_rule *inner)
{
	for (size_t i = 0; i < outer->len; i++)
		if (domain_rule_covers(&outer->items[i], inner))
			return true;
	return false;
}

int network_rules_within(const struct strv *rules, const struct strv *most, const char **ret_rule,
			 struct cay_error *err)
{
	_cleanup_(rules_done) struct rules inner = {0}, outer = {0};

	if (rules_read(rules, &inner, err) < 0 || rules_read(most, &outer, err) < 0)
		return -1;
	for (size_t i = 0; i < inner.len; i++)
		if (!rules_cover(&outer, &inner.items[i])) {
			*ret_rule = rules->items[i];
			return 0;
		}
	return 1;
}

static const struct strv *key_allow(const struct settings *s)
{
	return s->key && s->key->has_allow ? &s->key->allow : NULL;
}

static bool by_name(const struct spec *spec)
{
	return spec->network.said || spec->network.allow.len > 0;
}

static int above(struct cay_error *err, enum network_mode m, const char *whose, const char *name,
		 enum network_mode most)
{
	return cay_fail(err, CAY_E_POLICY, 0, "the network mode %s is above %s%s, which is %s",
			network_mode_name(m), whose, name, network_mode_name(most));
}

/* Each of those who have a say, and the hint that says where. */
static int check_mode(enum network_mode m, const struct spec *spec, const struct settings *s,
		      struct cay_error *err)
{
	const struct bounds *b = s->key;

	if (m > s->network_mode) {
		(void)above(err, m, "the operator's", "", s->network_mode);
		return cay_hint(err, "[network] mode in the settings says the most there can be");
	}
	if (spec->has_tier && m > s->tiers[spec->tier].network) {
		(void)above(err, m, "what the request's tier brings: ", tier_name(spec->tier),
			    s->tiers[spec->tier].network);
		return cay_hint(err, "ask for another tier, or leave it out");
	}
	if (b && b->has_tier && m > s->tiers[b->tier].network) {
		(void)above(err, m, "what the key's tier brings: ", tier_name(b->tier),
			    s->tiers[b->tier].network);
		return cay_hint(err, "a key's tier is the most that its holders can have");
	}
	if (b && b->has_networks && !(b->networks & 1u << m)) {
		(void)cay_fail(err, CAY_E_POLICY, 0, "the network mode %s: not for this key",
			       network_mode_name(m));
		return cay_hint(err, "the key's bound networks says what it may have");
	}
	if (m == NETWORK_FULL && key_allow(s)) {
		(void)cay_fail(err, CAY_E_POLICY, 0,
			       "the network mode full: this key has a list of domains");
		return cay_hint(err, "the key's bound allow says what it may have: ask for "
				     "allowlist");
	}
	return 0;
}

/* By a tier: a list of domains that nobody has written brings nothing. */
static bool can_be_brought(enum network_mode m, const struct spec *spec, const struct settings *s)
{
	const struct strv *list = key_allow(s) ? key_allow(s) : &s->network_allow;
	struct cay_error unused;

	return check_mode(m, spec, s, &unused) == 0 && (m != NETWORK_ALLOWLIST || list->len > 0);
}

/*
 * What is asked for by name is had or refused; a tier brings as much of what it stands for as
 * may be had.
 */
static int decide_mode(const struct spec *spec, const struct settings *s, enum network_mode *ret,
		       struct cay_error *err)
{
	enum network_mode m = spec->network.said            ? spec->network.mode
			      : spec->network.allow.len > 0 ? NETWORK_ALLOWLIST
			      : spec->has_tier              ? s->tiers[spec->tier].network
							    : NETWORK_NONE;

	if (m != NETWORK_ALLOWLIST && spec->network.allow.len > 0) {
		(void)cay_fail(err, CAY_E_INVALID, 0,
			       "the network mode %s takes no list of allowed domains",
			       network_mode_name(m));
		return cay_hint(err, "leave the mode out, or the list (--allow-domain, "
				     "network.allow): domains that are listed mean allowlist");
	}
	if (spec->has_tier && s->key && s->key->has_tier && spec->tier > s->key->tier) {
		(void)cay_fail(err, CAY_E_POLICY, 0, "the tier %s is above the key's, which is %s",
			       tier_name(spec->tier), tier_name(s->key->tier));
		return cay_hint(err, "a key's tier is the most that its holders can have");
	}
	if (by_name(spec)) {
		if (m > NETWORK_NONE && check_mode(m, spec, s, err) < 0)
			return -1;
	} else {
		while (m > NETWORK_NONE && !can_be_brought(m, spec, s))
			m--;
	}
	*ret = m;
	return 0;
}

enum network_mode network_in_sight(const struct spec *spec, const struct settings *s)
{
	enum network_mode m = NETWORK_NONE;
	struct cay_error unused;

	return decide_mode(spec, s, &m, &unused) == 0 ? m : NETWORK_NONE;
}

static int add(struct strv *list, const char *rule, struct cay_error *err)
{
	for (size_t i = 0; i < list->len; i++)
		if (strcmp(list->items[i], rule) == 0)
			return 0;
	return strv_add(list, rule) < 0 ? no_memory(err) : 0;
}

static int add_all(struct strv *list, const struct strv *more, struct cay_error *err)
{
	for (size_t i = 0; i < more->len; i++)
		if (add(list, more->items[i], err) < 0)
			return -1;
	return 0;
}

static int not_covered(struct cay_error *err, const char *rule, const char *whose, const char *hint)
{
	(void)cay_fail(err, CAY_E_POLICY, 0, "the domain %s is not among what %s allows", rule,
		       whose);
	return cay_hint(err, "%s", hint);
}

static int take_asked(const struct strv *asked, const struct settings *s, struct strv *ret,
		      struct cay_error *err)
{
	_cleanup_(rules_done) struct rules rules = {0}, operators = {0}, keys = {0};
	const struct strv *key = key_allow(s);

	if (rules_read(asked, &rules, err) < 0 ||
	    rules_read(&s->network_allow, &operators, err) < 0 ||
	    (key && rules_read(key, &keys, err) < 0))
		return -1;
	for (size_t i = 0; i < rules.len; i++) {
		if (operators.len > 0 && !rules_cover(&operators, &rules.items[i]))
			return not_covered(err, asked->items[i], "the operator",
					   "[network] allow in the settings lists what is");
		if (key && !rules_cover(&keys, &rules.items[i]))
			return not_covered(err, asked->items[i], "the key",
					   "the key's bound allow lists what is");
		if (add(ret, asked->items[i], err) < 0)
			return -1;
	}
	return 0;
}

static bool ports_meet(int32_t a, int32_t b, int32_t *ret)
{
	bool web = b == DOMAIN_PORTS_UNSAID && (a == 80 || a == 443);

	*ret = a == DOMAIN_PORTS_ALL ? b : a;
	if (a == b || a == DOMAIN_PORTS_ALL || b == DOMAIN_PORTS_ALL || web)
		return true;
	*ret = b;
	return a == DOMAIN_PORTS_UNSAID && (b == 80 || b == 443);
}

/* What both allow, as a rule; false where there is no such thing. */
static bool rules_meet(const struct domain_rule *a, const struct domain_rule *b,
		       struct domain_rule *ret)
{
	struct domain_rule first = *a, second = *b;

	first.port = second.port = DOMAIN_PORTS_ALL;
	if (domain_rule_covers(&first, &second))
		*ret = second;
	else if (domain_rule_covers(&second, &first))
		*ret = first;
	else
		return false;
	return ports_meet(a->port, b->port, &ret->port);
}

/* What is allowed where the call lists nothing: the key's list, and of that what the operator's
 * has. */
static int take_common(const struct strv *key, const struct settings *s, struct strv *ret,
		       struct cay_error *err)
{
	_cleanup_(rules_done) struct rules keys = {0}, operators = {0};
	struct domain_rule both;
	char text[DOMAIN_RULE_SIZE];

	if (s->network_allow.len == 0)
		return add_all(ret, key, err);
	if (rules_read(key, &keys, err) < 0 || rules_read(&s->network_allow, &operators, err) < 0)
		return -1;
	for (size_t i = 0; i < keys.len; i++)
		for (size_t k = 0; k < operators.len; k++) {
			if (!rules_meet(&keys.items[i], &operators.items[k], &both))
				continue;
			domain_rule_text(&both, text);
			if (add(ret, text, err) < 0)
				return -1;
		}
	return 0;
}

static int decide_allow(const struct spec *spec, const struct settings *s, struct strv *ret,
			struct cay_error *err)
{
	const struct strv *key = key_allow(s);
	int r;

	if (spec->network.allow.len > 0)
		return take_asked(&spec->network.allow, s, ret, err);
	r = key ? take_common(key, s, ret, err) : add_all(ret, &s->network_allow, err);
	if (r < 0 || ret->len > 0)
		return r;
	if (key)
		return cay_fail(err, CAY_E_POLICY, 0,
				"the network mode allowlist: there is no domain that this key may "
				"reach");
	(void)cay_fail(err, CAY_E_INVALID, 0,
		       "the network mode allowlist, and no domain is listed");
	return cay_hint(err, "say which: --allow-domain DOMAIN, or network.allow");
}

/* What blocks, blocks, whoever says it. */
static int decide_block(const struct spec *spec, const struct settings *s, struct strv *ret,
			struct cay_error *err)
{
	if (add_all(ret, &spec->network.block, err) < 0 ||
	    (s->key && add_all(ret, &s->key->block, err) < 0))
		return -1;
	return add_all(ret, &s->network_block, err);
}

static int check_size(const struct network_spec *n, struct cay_error *err)
{
	const struct strv *lists[] = {&n->allow, &n->block};
	size_t bytes = 0;

	for (size_t k = 0; k < ARRAY_LEN(lists); k++)
		for (size_t i = 0; i < lists[k]->len; i++)
			bytes += strlen(lists[k]->items[i]) + 2;
	if (n->allow.len + n->block.len <= EGRESS_RULES_MAX && bytes <= EGRESS_RULES_BYTES)
		return 0;
	(void)cay_fail(err, CAY_E_TOO_LARGE, 0,
		       "%zu rules for domains of %zu bytes: more than %d, or than %u bytes",
		       n->allow.len + n->block.len, bytes, EGRESS_RULES_MAX, EGRESS_RULES_BYTES);
	return cay_hint(err, "those that the operator and the key block count too; "
			     "*.example.org is all below it");
}

int network_decide(const struct spec *spec, const struct settings *s, struct network_spec *ret,
		   struct cay_error *err)
{
	*ret = (struct network_spec){.said = true};
	if (decide_mode(spec, s, &ret->mode, err) < 0)
		return -1;
	if (ret->mode == NETWORK_NONE)
		return 0;
	if ((ret->mode == NETWORK_ALLOWLIST && decide_allow(spec, s, &ret->allow, err) < 0) ||
	    decide_block(spec, s, &ret->block, err) < 0 || check_size(ret, err) < 0) {
		network_spec_done(ret);
		return -1;
	}
	return 0;
}
