/*
 * domain.h: names of hosts, and rules about them. Pure.
 *
 * A rule is "example.org" (this name), "*.example.org" (all below it, on borders of labels)
 * or "*" (all), each with ":PORT" or ":*" (every port) behind it. Without a port, a rule that
 * allows means 80 and 443, and one that blocks every port.
 */
#pragma once

#include "core/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DOMAIN_SIZE      254
#define DOMAIN_RULE_SIZE (DOMAIN_SIZE + 8)

/*
 * Letters, digits and hyphens in labels of at most 63, lower-cased, without the dot at the
 * end. -EINVAL: it is no name; also what could be read as an address, in any notation.
 */
int domain_name(const char *text, size_t len, char ret[DOMAIN_SIZE]);

#define DOMAIN_PORTS_UNSAID 0
#define DOMAIN_PORTS_ALL    (-1)

struct domain_rule {
	char name[DOMAIN_SIZE]; /* "" where below: all names */
	bool below;
	int32_t port;
};

/* CAY_E_INVALID says what a rule looks like. */
int domain_rule_parse(const char *text, struct domain_rule *ret, struct cay_error *err);

/* As it is written. */
void domain_rule_text(const struct domain_rule *r, char ret[DOMAIN_RULE_SIZE]);

bool domain_rule_allows(const struct domain_rule *r, const char *name, uint16_t port);
bool domain_rule_blocks(const struct domain_rule *r, const char *name, uint16_t port);

/* Whether outer allows all that inner does. */
bool domain_rule_covers(const struct domain_rule *outer, const struct domain_rule *inner);
