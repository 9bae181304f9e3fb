#include "base/words.h"
#include "spec/spec.h"

#include <errno.h>

void network_spec_done(struct network_spec *n)
{
	strv_done(&n->allow);
	strv_done(&n->block);
	*n = (struct network_spec){0};
}

static void needs_sandbox(struct spec *s, const char *field)
{
	if (!s->needs_sandbox)
		s->needs_sandbox = field;
}

int spec_set_network(struct spec *s, const char *text, struct cay_error *err)
{
	enum network_mode m = network_mode_find(text);
	struct guess guess = GUESS(text);

	needs_sandbox(s, "network");
	if (m < NETWORK_MODES) {
		s->network.said = true;
		s->network.mode = m;
		return 0;
	}
	for (m = NETWORK_NONE; m < NETWORK_MODES; m++)
		guess_offer(&guess, network_mode_name(m));
	(void)cay_fail(err, CAY_E_INVALID, 0, "'%.64s' is no network mode", text);
	return guess.meant ? cay_hint(err, "did you mean %s?", guess.meant)
			   : cay_hint(err, "it is one of none, allowlist, full");
}

static int add_rule(struct spec *s, struct strv *list, const char *text, struct cay_error *err)
{
	struct domain_rule rule;
	char normal[DOMAIN_RULE_SIZE];
	int r;

	needs_sandbox(s, "network");
	if (domain_rule_parse(text, &rule, err) < 0)
		return -1;
	if (s->network.allow.len + s->network.block.len == EGRESS_RULES_MAX)
		return cay_fail(err, CAY_E_TOO_LARGE, 0, "more than %d rules for domains",
				EGRESS_RULES_MAX);
	domain_rule_text(&rule, normal);
	r = strv_add(list, normal);
	return r < 0 ? cay_fail(err, CAY_E_INTERNAL, -r, "read the request") : 0;
}

int spec_allow_domain(struct spec *s, const char *text, struct cay_error *err)
{
	return add_rule(s, &s->network.allow, text, err);
}

int spec_block_domain(struct spec *s, const char *text, struct cay_error *err)
{
	return add_rule(s, &s->network.block, text, err);
}

int spec_set_tier(struct spec *s, const char *text, struct cay_error *err)
{
	enum tier t = tier_find(text);
	struct guess guess = GUESS(text);

	if (t < TIERS) {
		s->has_tier = true;
		s->tier = t;
		return 0;
	}
	for (t = TIER_SANDBOX; t < TIERS; t++)
		guess_offer(&guess, tier_name(t));
	(void)cay_fail(err, CAY_E_INVALID, 0, "'%.64s' is no tier", text);
	return guess.meant ? cay_hint(err, "did you mean %s?", guess.meant)
			   : cay_hint(err, "it is one of sandbox, restricted, standard, elevated, "
					   "unrestricted");
}
