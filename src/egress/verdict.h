/*
 * verdict.h: whether an island may reach a name or an address, and why not: its own rules, and
 * the operator's, which they can only narrow. Pure.
 *
 * Verdicts are an enum egress_why; WHY_NONE is allowed.
 */
#pragma once

#include "core/address.h"
#include "core/egress.h"
#include "core/error.h"
#include "settings/settings.h"

#include <stddef.h>
#include <stdint.h>

struct rules {
	struct domain_rule *allow, *block;
	size_t n_allow, n_block;
};

void rules_done(struct rules *r);

/* Of the wire (egress/wire.h): "+RULE" and "-RULE", each with a NUL behind it. */
int rules_parse(const char *text, size_t len, struct rules *ret, struct cay_error *err);

struct operator_rules {
	enum network_mode mode; /* the most that can be had */
	struct rules rules;
	struct address_rule *addresses; /* allowed, though not public */
	size_t n_addresses;
};

void operator_rules_done(struct operator_rules *o);
int operator_rules_make(const struct settings *s, struct operator_rules *ret,
			struct cay_error *err);

struct policy {
	enum network_mode mode;
	struct rules rules;
	const struct operator_rules *operator;
};

/* port: 0 where it is not known yet, as for a question about a name; then any will do. */
enum egress_why verdict_name(const struct policy *p, const char *name, uint16_t port);

/* An address that is of no name we gave out; whether it is our own is seen when it is dialled. */
enum egress_why verdict_literal(const struct policy *p, const struct address *a, uint16_t port);

/*
 * Whether it may be connected to at all, whatever led to it. own: it is this host's (own.h). port:
 * 0 where any will do.
 */
enum egress_why verdict_address(const struct operator_rules *o, const struct address *a, bool own,
				uint16_t port);
