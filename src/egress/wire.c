#include "egress/wire.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct egress_rules egress_rules_of(const struct plan *p)
{
	const char *first = plan_first(p, p->rules), *end = first;

	for (uint32_t i = 0; i < p->rules.len; i++)
		end = plan_next(end);
	return (struct egress_rules){.name = p->id,
				     .mode = (enum network_mode)p->network,
				     .text = first,
				     .len = (size_t)(end - first)};
}

ssize_t egress_pack(const struct egress_request *q, const struct egress_rules *r,
		    char ret[EGRESS_REQUEST_MAX])
{
	struct egress_request head = *q;

	head.mode = (uint32_t)r->mode;
	(void)snprintf(head.name, sizeof(head.name), "%s", r->name);
	if (r->len > EGRESS_REQUEST_MAX - sizeof(head))
		return -EMSGSIZE;
	memcpy(ret, &head, sizeof(head));
	if (r->len > 0)
		memcpy(ret + sizeof(head), r->text, r->len);
	return (ssize_t)(sizeof(head) + r->len);
}

static bool entry_ok(const struct egress_entry *e)
{
	return e->verdict < VERDICTS && e->why < WHYS &&
	       memchr(e->name, '\0', sizeof(e->name)) != NULL;
}

int egress_unpack(const struct egress_answer *a, size_t len, struct egress_log *ret)
{
	size_t n = a->n_entries;

	*ret = (struct egress_log){.unlisted = a->unlisted};
	if (n > EGRESS_ENTRIES_MAX || len != sizeof(*a) + n * sizeof(struct egress_entry))
		return -EBADMSG;
	ret->entries = calloc(n + 1, sizeof(struct egress_entry));
	if (!ret->entries)
		return -ENOMEM;
	memcpy(ret->entries, a + 1, n * sizeof(struct egress_entry));
	for (ret->n = 0; ret->n < n; ret->n++)
		if (!entry_ok(&ret->entries[ret->n])) {
			egress_log_done(ret);
			return -EBADMSG;
		}
	return 0;
}
