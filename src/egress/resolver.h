/*
 * resolver.h: names to addresses, by the host's name servers and hosts file: the one shim over
 * c-ares. One for all networks; each limits its own questions.
 */
#pragma once

#include "base/loop.h"
#include "core/address.h"

#include <stddef.h>

/* Addresses that are taken of one answer, and questions that are in flight at once. */
#define RESOLVER_ADDRESSES 16
#define RESOLVER_QUESTIONS 4096

enum resolved {
	RESOLVED,         /* with at least one address */
	RESOLVED_NOTHING, /* there is such a name, but it has none */
	RESOLVED_NO_NAME,
	RESOLVED_FAILED, /* nobody could say */
};

struct resolver;
struct question;

struct answer {
	enum resolved outcome;
	struct address list[RESOLVER_ADDRESSES];
	size_t n;
	unsigned ttl_s;
};

typedef void answered_fn(void *ctx, const struct answer *a);

/* NULL when memory is out or the host's settings for it can't be read. */
struct resolver *resolver_new(struct loop *l);
void resolver_free(struct resolver *r);

/* answered is called once, later. NULL: too many, or memory is out. */
struct question *resolver_ask(struct resolver *r, const char *name, answered_fn *answered,
			      void *ctx);

/* Then it is not called. */
void resolver_forget(struct question *q);
