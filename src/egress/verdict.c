#include "egress/verdict.h"

#include "egress/wire.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Of a rule that says none: with one of these it allows, if the name is right. */
#define SOME_PORT 443

void rules_done(struct rules *r)
{
	free(r->allow);
	free(r->block);
	*r = (struct rules){0};
}

static int no_memory(struct cay_error *err)
{
	return cay_fail(err, CAY_E_INTERNAL, ENOMEM, "keep rules for domains");
}

/* Room for max of each. */
static int rules_init(struct rules *r, size_t max_allow, size_t max_block, struct cay_error *err)
{
	*r = (struct rules){.allow = calloc(max_allow + 1, sizeof(*r->allow)),
			    .block = calloc(max_block + 1, sizeof(*r->block))};
	if (r->allow && r->block)
		return 0;
	rules_done(r);
	return no_memory(err);
}

static int add_rule(struct rules *r, const char *text, struct cay_error *err)
{
	if (text[0] == '+')
		return domain_rule_parse(text + 1, &r->allow[r->n_allow++], err);
	if (text[0] == '-')
		return domain_rule_parse(text + 1, &r->block[r->n_block++], err);
	return cay_fail(err, CAY_E_INVALID, 0, "a rule for domains neither allows nor blocks");
}

/* How many rules begin with this sign. */
static size_t count_rules(const char *text, size_t len, char sign)
{
	size_t n = 0;

	for (size_t at = 0; at < len; at += strlen(text + at) + 1)
		n += text[at] == sign;
	return n;
}

int rules_parse(const char *text, size_t len, struct rules *ret, struct cay_error *err)
{
	size_t allow, block;
	struct rules r;

	if (len > 0 && text[len - 1] != '\0')
		return cay_fail(err, CAY_E_INVALID, 0, "rules for domains are cut short");
	allow = count_rules(text, len, '+');
	block = count_rules(text, len, '-');
	if (allow > EGRESS_RULES_MAX || block > EGRESS_RULES_MAX)
		return cay_fail(err, CAY_E_TOO_LARGE, 0, "more than %d rules for domains",
				EGRESS_RULES_MAX);
	if (rules_init(&r, allow, block, err) < 0)
		return -1;
	for (size_t at = 0; at < len; at += strlen(text + at) + 1)
		if (add_rule(&r, text + at, err) < 0) {
			rules_done(&r);
			return -1;
		}
	*ret = r;
	return 0;
}

void operator_rules_done(struct operator_rules *o)
{
	rules_done(&o->rules);
	free(o->addresses);
	o->addresses = NULL;
}

static int parse_all(const struct strv *texts, struct domain_rule *ret, size_t *ret_n,
		     struct cay_error *err)
{
	for (; *ret_n < texts->len; (*ret_n)++)
		if (domain_rule_parse(texts->items[*ret_n], &ret[*ret_n], err) < 0)
			return -1;
	return 0;
}

static int parse_addresses(const struct strv *texts, struct operator_rules *o,
			   struct cay_error *err)
{
	o->addresses = calloc(texts->len + 1, sizeof(*o->addresses));
	if (!o->addresses)
		return no_memory(err);
	for (; o->n_addresses < texts->len; o->n_addresses++)
		if (address_rule_parse(texts->items[o->n_addresses], &o->addresses[o->n_addresses],
				       err) < 0)
			return -1;
	return 0;
}

int operator_rules_make(const struct settings *s, struct operator_rules *ret, struct cay_error *err)
{
	struct operator_rules o = {.mode = s->network_mode};

	if (rules_init(&o.rules, s->network_allow.len, s->network_block.len, err) < 0)
		return -1;
	if (parse_all(&s->network_allow, o.rules.allow, &o.rules.n_allow, err) < 0 ||
	    parse_all(&s->network_block, o.rules.block, &o.rules.n_block, err) < 0 ||
	    parse_addresses(&s->network_addresses, &o, err) < 0) {
		operator_rules_done(&o);
		return -1;
	}
	*ret = o;
	return 0;
}

/* Where the port is not known, only what blocks all of them does. */
static bool is_blocked(const struct rules *r, const char *name, uint16_t port)
{
	for (size_t n = 0; n < r->n_block; n++)
		if (domain_rule_blocks(&r->block[n], name, port))
			return true;
	return false;
}

static bool allows_name(const struct domain_rule *r, const char *name)
{
	return domain_rule_allows(r, name, r->port > 0 ? (uint16_t)r->port : SOME_PORT);
}

static enum egress_why look_up(const struct rules *r, const char *name, uint16_t port)
{
	enum egress_why why = WHY_NOT_LISTED;

	for (size_t n = 0; n < r->n_allow; n++) {
		if (!allows_name(&r->allow[n], name))
			continue;
		if (port == 0 || domain_rule_allows(&r->allow[n], name, port))
			return WHY_NONE;
		why = WHY_PORT;
	}
	return why;
}

static bool operator_allows(const struct operator_rules *o, const char *name, uint16_t port)
{
	return !is_blocked(&o->rules, name, port) &&
	       (o->rules.n_allow == 0 || look_up(&o->rules, name, port) == WHY_NONE);
}

enum egress_why verdict_name(const struct policy *p, const char *name, uint16_t port)
{
	enum egress_why why;

	if (p->mode > p->operator->mode || p->operator->mode == NETWORK_NONE)
		return WHY_OPERATOR;
	if (p->mode == NETWORK_NONE)
		return WHY_NOT_LISTED;
	if (is_blocked(&p->rules, name, port))
		return WHY_BLOCKED;
	why = p->mode == NETWORK_FULL ? WHY_NONE : look_up(&p->rules, name, port);
	if (why != WHY_NONE)
		return why;
	return operator_allows(p->operator, name, port) ? WHY_NONE : WHY_OPERATOR;
}

enum egress_why verdict_literal(const struct policy *p, const struct address *a, uint16_t port)
{
	char text[ADDRESS_SIZE];
	enum egress_why why;

	/* Of rules, only those about all names can match: no other name is an address. */
	address_text(a, text);
	why = verdict_name(p, text, port);
	if (p->mode == NETWORK_ALLOWLIST && why != WHY_OPERATOR && why != WHY_BLOCKED)
		return WHY_LITERAL;
	return why != WHY_NONE ? why : verdict_address(p->operator, a, false, port);
}

enum egress_why verdict_address(const struct operator_rules *o, const struct address *a, bool own,
				uint16_t port)
{
	if (address_is_public(a) && !own)
		return WHY_NONE;
	for (size_t n = 0; n < o->n_addresses; n++) {
		const struct address_rule *r = &o->addresses[n];

		if (address_rule_matches(r, a, port > 0 ? port : r->port))
			return WHY_NONE;
	}
	return WHY_NOT_PUBLIC;
}
