/*
 * authority.h: host and port, as they stand in a URL, a Host header or a CONNECT. Pure.
 */
#pragma once

#include "core/address.h"
#include "core/domain.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct authority {
	char host[DOMAIN_SIZE]; /* normalised: a name (domain_name), or an address (address_text) */
	bool literal;           /* an address */
	struct address address; /* of a literal */
	uint16_t port;          /* 0: none is said */
};

/* NAME, 192.0.2.1 or [2001:db8::1], each with :PORT or without; -EINVAL: it is none of them. */
int authority_parse(const char *text, size_t len, struct authority *ret);

/*
 * Of http://AUTHORITY… or https://AUTHORITY…; -EINVAL: it is no such URL, or names a user.
 * *ret_path: what is behind it: "", or it begins with a slash, '?' or '#'.
 */
int authority_of_url(const char *url, struct authority *ret, bool *ret_https,
		     const char **ret_path);
