/*
 * address.h: addresses, which of them are public, and operators' rules about others. Pure.
 *
 * A rule is ADDRESS[/BITS][:PORT]: "127.0.0.1:5432", "10.1.0.0/16", "[fd00::]/8:443".
 */
#pragma once

#include "core/error.h"

#include <stdbool.h>
#include <stdint.h>

/* An address as bytes; v4 as mapped v6, so that there is one kind. */
struct address {
	uint8_t bytes[16];
};

/* A dotted quad or RFC 4291's notation, without zone and brackets; -EINVAL for all else. */
int address_parse(const char *text, struct address *ret);

#define ADDRESS_SIZE 46

/* v4 as a dotted quad. */
void address_text(const struct address *a, char ret[ADDRESS_SIZE]);

bool address_is_v4(const struct address *a);

/*
 * Whether it is some host's on the internet: not private, local, shared, multicast, reserved or
 * a cloud's own, nor a v6 address by which a relay would reach such a v4 one.
 */
bool address_is_public(const struct address *a);

struct address_rule {
	struct address address;
	uint8_t bits;  /* of 128 */
	uint16_t port; /* 0: every */
};

/* CAY_E_INVALID says what a rule looks like. No bits may be set behind the prefix. */
int address_rule_parse(const char *text, struct address_rule *ret, struct cay_error *err);

/* A rule of v6 addresses never means v4 ones: [::]/0 leaves 127.0.0.1 alone. */
bool address_rule_matches(const struct address_rule *r, const struct address *a, uint16_t port);
