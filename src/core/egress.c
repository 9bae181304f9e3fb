#include "core/egress.h"

#include "base/attr.h"
#include "base/json.h"
#include "base/strv.h"

#include <stdlib.h>
#include <string.h>

static const char *const mode_names[NETWORK_MODES] = {
	[NETWORK_NONE] = "none",
	[NETWORK_ALLOWLIST] = "allowlist",
	[NETWORK_FULL] = "full",
};

static const char *const verdict_names[VERDICTS] = {
	[VERDICT_ALLOWED] = "allowed",
	[VERDICT_DENIED] = "denied",
	[VERDICT_FAILED] = "failed",
};

static const char *const why_texts[WHYS] = {
	[WHY_NONE] = "",
	[WHY_NOT_LISTED] = "not in allow list",
	[WHY_BLOCKED] = "in block list",
	[WHY_PORT] = "port not in allow list",
	[WHY_OPERATOR] = "not allowed by the operator",
	[WHY_LITERAL] = "an address, where only names are allowed",
	[WHY_NOT_PUBLIC] = "leads to an address that is not public",
	[WHY_NAME_DIFFERS] = "TLS or HTTP names another host than the one connected to",
	[WHY_HEAD] = "what TLS or HTTP says first is too long",
	[WHY_PROTOCOL] = "neither TCP nor DNS",
	[WHY_NOT_A_NAME] = "not the name of a host",
	[WHY_CONNECTIONS] = "too many connections at once",
	[WHY_BYTES] = "limit of bytes reached",
	[WHY_NAMES] = "too many names",
	[WHY_LOOKUPS] = "too many names asked for at once",
	[WHY_NO_SUCH_NAME] = "no such name",
	[WHY_NO_ANSWER] = "no answer of the name servers",
	[WHY_REFUSED] = "connection refused",
	[WHY_UNREACHABLE] = "unreachable",
	[WHY_TIMED_OUT] = "timed out",
	[WHY_RESET] = "connection reset",
	[WHY_LOST] = "the process that carries connections ended",
};

const char *network_mode_name(enum network_mode m)
{
	return mode_names[m];
}

enum network_mode network_mode_find(const char *name)
{
	enum network_mode m = NETWORK_NONE;

	while (m < NETWORK_MODES && strcmp(mode_names[m], name) != 0)
		m++;
	return m;
}

const char *egress_verdict_name(enum egress_verdict v)
{
	return verdict_names[v];
}

const char *egress_why_text(enum egress_why w)
{
	return why_texts[w];
}

void egress_log_done(struct egress_log *l)
{
	free(l->entries);
	*l = (struct egress_log){0};
}

struct egress_log egress_log_lost(void)
{
	struct egress_log l = {.entries = calloc(1, sizeof(struct egress_entry))};

	if (!l.entries)
		return l;
	l.n = 1;
	l.entries[0] = (struct egress_entry){
		.name = "*", .verdict = VERDICT_FAILED, .why = WHY_LOST, .times = 1};
	return l;
}

static bool is_same(const struct egress_entry *a, const struct egress_entry *b)
{
	return a->port == b->port && a->verdict == b->verdict && a->why == b->why &&
	       strcmp(a->name, b->name) == 0;
}

static void subtract(struct egress_entry *e, const struct egress_log *before)
{
	for (size_t i = 0; i < before->n; i++) {
		const struct egress_entry *b = &before->entries[i];

		if (!is_same(e, b) || b->times > e->times || b->bytes_in > e->bytes_in ||
		    b->bytes_out > e->bytes_out)
			continue;
		e->times -= b->times;
		e->bytes_in -= b->bytes_in;
		e->bytes_out -= b->bytes_out;
	}
}

void egress_log_since(struct egress_log *l, const struct egress_log *before)
{
	size_t n = 0;

	for (size_t i = 0; i < l->n; i++) {
		struct egress_entry e = l->entries[i];

		subtract(&e, before);
		if (e.times > 0 || e.bytes_in > 0 || e.bytes_out > 0)
			l->entries[n++] = e;
	}
	l->n = n;
	l->unlisted -= before->unlisted < l->unlisted ? before->unlisted : l->unlisted;
}

static struct json *entry_json(const struct egress_entry *e)
{
	struct json *o = json_new_object();

	json_set_str(o, "name", e->name);
	if (e->port > 0)
		json_set_int(o, "port", e->port);
	json_set_str(o, "verdict", egress_verdict_name(e->verdict));
	if (e->why != WHY_NONE)
		json_set_str(o, "why", egress_why_text(e->why));
	json_set_int(o, "times", e->times);
	if (e->verdict == VERDICT_ALLOWED) {
		json_set_int(o, "bytes_in", (int64_t)e->bytes_in);
		json_set_int(o, "bytes_out", (int64_t)e->bytes_out);
	}
	return o;
}

struct json *egress_log_json(const struct egress_log *l)
{
	struct json *list = json_new_array();

	for (size_t i = 0; i < l->n; i++)
		json_add(list, entry_json(&l->entries[i]));
	return list;
}

static struct json *list_json(const struct strv *rules)
{
	struct json *list = json_new_array();

	for (size_t i = 0; i < rules->len; i++)
		json_add_str(list, rules->items[i]);
	return list;
}

struct json *egress_rules_json(const struct strv *allow, const struct strv *block)
{
	struct json *o = json_new_object();

	json_set(o, "allow", list_json(allow));
	json_set(o, "block", list_json(block));
	return o;
}
