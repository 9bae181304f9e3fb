/*
 * book.h: the addresses that an island knows names by: each allowed name gets one of
 * 198.18.0.0/15, in order of first use, and keeps it. Pure.
 */
#pragma once

#include "core/address.h"

#include <stddef.h>
#include <stdint.h>

#define BOOK_MAX     16384      /* names of one network */
#define BOOK_OURS    0xc6120001 /* 198.18.0.1: DNS and proxy */
#define BOOK_FIRST   0xc6120100 /* 198.18.1.0 */
#define BOOK_RESULTS 16         /* addresses that are kept of what a name leads to */

struct book_name {
	char *name;
	uint32_t address;         /* the host's order */
	struct address *leads_to; /* as last resolved; NULL: not, or no longer */
	size_t n_leads_to;
	uint64_t until_ns; /* then it is to be resolved again */
};

struct book {
	void *by_name;            /* a tree of tsearch(3): keys are others' to choose */
	struct book_name **names; /* by address */
	size_t n, cap;
};

/* All zeros is an empty one. */
void book_done(struct book *b);

/* NULL: not in it. */
struct book_name *book_find(const struct book *b, const char *name);
struct book_name *book_at(const struct book *b, uint32_t address);

/* Finds it or enters it. 0, -ENOSPC: there are BOOK_MAX others; -ENOMEM. */
int book_enter(struct book *b, const char *name, struct book_name **ret);

/* What it leads to, of which the first BOOK_RESULTS are kept. 0 or -ENOMEM. */
int book_keep(struct book_name *n, const struct address *list, size_t len, uint64_t until_ns);
