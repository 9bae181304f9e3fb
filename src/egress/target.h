/*
 * target.h: where a program wants to go, and whether it may.
 */
#pragma once

#include "egress/authority.h"
#include "egress/net.h"

/* Of our own address, BOOK_OURS. */
#define DNS_PORT   53
#define PROXY_PORT 3128

enum target_kind {
	TARGET_THROUGH, /* to somebody upstream */
	TARGET_DNS,     /* to us, who answer */
	TARGET_PROXY, /* the same, before it is known where that leads, or when it leads nowhere */
};

struct target {
	enum target_kind kind;
	bool literal;           /* an address that is of no name */
	char name[DOMAIN_SIZE]; /* or the address, as text */
	struct address address; /* of a literal */
	uint16_t port;
};

/* Of a connection. */
void target_find(const struct net *n, const struct tuple *t, struct target *ret);

/* Of what the proxy is asked for: by an address, too, that is of a name. */
void target_find_proxied(const struct net *n, const struct authority *to, struct target *ret);

/* WHY_NONE: it may, now. */
enum egress_why target_judge(const struct net *n, const struct target *t);

/* Whether a program that is connected to the target may name this host in what it sends. */
bool target_may_name(const struct net *n, const struct target *t, const char *name);
