/*
 * journal.h: what became of one network's ways out, gathered. Pure.
 */
#pragma once

#include "core/egress.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* So many of the entries are kept for what was reached, whatever else was tried before that. */
#define JOURNAL_REACHED (EGRESS_ENTRIES_MAX / 4)

struct journal {
	struct egress_entry entries[EGRESS_ENTRIES_MAX];
	size_t n, n_others; /* of which were not allowed, or failed */
	uint64_t unlisted;
};

/*
 * Counts an outcome. The entry it is of, which stays where it is; NULL when there are too many
 * others. *ret_new: it is the first of its kind.
 */
struct egress_entry *journal_note(struct journal *j, const char *name, uint16_t port,
				  enum egress_why why, bool *ret_new);

/* Of what kind an outcome is that has this reason. */
enum egress_verdict journal_verdict(enum egress_why why);
