/*
 * names.h: names that one network uses: the address it knows each by, and what each leads to,
 * which is asked for once at a time and kept as long as the answer says.
 */
#pragma once

#include "core/egress.h"
#include "egress/book.h"
#include "egress/rate.h"
#include "egress/resolver.h"

/* The host's own loopback, which is of use only where the operator lists it. */
#define NAMES_HOST "host.cay.internal"

/* Questions of one network that are in flight at once, or wait for that. */
#define NAMES_LOOKUPS_MAX 128

struct lookup;

struct names {
	struct resolver *resolver;
	struct book book;
	struct lookup *lookups; /* the oldest first */
	size_t n_lookups;
	struct loop *loop;
	struct rate rate; /* of questions to name servers; those that are more wait */
	struct loop_timer again;
};

void names_init(struct names *n, struct loop *loop, struct resolver *r, uint64_t per_second);

/* Somebody who waits for a name. */
struct names_wait {
	/* found: NULL where why is not WHY_NONE, and where the name has no address at all. */
	void (*done)(struct names_wait *w, enum egress_why why, struct book_name *found);
	void *ctx;
	/* names.c's own. */
	struct lookup *lookup;
	struct names_wait *next;
};

void names_done(struct names *n);

/*
 * 1: known, in *ret. 0: w->done is called later, unless names_leave() comes before. -EAGAIN:
 * too many are asked for already; -ENOMEM: nobody can be asked.
 */
int names_resolve(struct names *n, const char *name, struct names_wait *w, struct book_name **ret);
void names_leave(struct names_wait *w);
