#include "egress/journal.h"

#include <stdio.h>
#include <string.h>

enum egress_verdict journal_verdict(enum egress_why why)
{
	if (why == WHY_NONE)
		return VERDICT_ALLOWED;
	return why < WHY_NO_SUCH_NAME ? VERDICT_DENIED : VERDICT_FAILED;
}

struct egress_entry *journal_note(struct journal *j, const char *name, uint16_t port,
				  enum egress_why why, bool *ret_new)
{
	struct egress_entry *e = j->entries;

	*ret_new = false;
	for (; e < j->entries + j->n; e++)
		if (e->port == port && e->why == why && strcmp(e->name, name) == 0) {
			e->times += e->times < UINT32_MAX;
			return e;
		}
	if (j->n == EGRESS_ENTRIES_MAX ||
	    (why != WHY_NONE && j->n_others >= EGRESS_ENTRIES_MAX - JOURNAL_REACHED)) {
		j->unlisted++;
		return NULL;
	}
	*ret_new = true;
	j->n++;
	j->n_others += why != WHY_NONE;
	*e = (struct egress_entry){
		.verdict = journal_verdict(why), .why = (uint8_t)why, .port = port, .times = 1};
	(void)snprintf(e->name, sizeof(e->name), "%s", name);
	return e;
}
