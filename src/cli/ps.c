#include "cli/cli.h"

#include "base/attr.h"
#include "base/clock.h"
#include "base/json.h"
#include "cli/options.h"
#include "cli/remote_sandbox.h"
#include "cli/table.h"

#include <stdio.h>
#include <time.h>

struct ps {
	bool all, json;
};

static const struct option_row rows[] = {
	{'a', "all", NULL, "also those that are gone", OPTION_STORE(struct ps, all)},
	{0, "json", NULL, "as one JSON object", OPTION_STORE(struct ps, json)},
};

/* How long ago, or until when. */
static const char *age(int64_t from, int64_t to, char text[24])
{
	return from <= 0 || to <= 0 ? "-" : table_age(to - from, text);
}

static int add_row(struct table *t, const struct json *s, struct cay_error *err)
{
	int64_t now_ms = clock_wall_ms();
	char created[24], used[24], expires[24];
	const char *cells[7];

	cells[0] = json_str(json_get(s, "id"));
	cells[1] = json_str(json_get(s, "name"));
	cells[2] = json_str(json_get(s, "state"));
	cells[3] = age(json_int(json_get(s, "created")), now_ms, created);
	cells[4] = age(json_int(json_get(s, "last_used")), now_ms, used);
	cells[6] = json_str(json_get(s, "scope"));
	cells[5] = age(now_ms, json_int(json_get(s, "expires")), expires);
	for (size_t i = 0; i < ARRAY_LEN(cells); i++)
		if (table_add(t, cells[i], err) < 0)
			return -1;
	return 0;
}

static int print(const struct json *list, struct cay_error *err)
{
	static const char *const title[] = {"ID",   "NAME",    "STATE", "CREATED",
					    "USED", "ENDS IN", "SCOPE"};
	_cleanup_(table_done) struct table t = {.columns = ARRAY_LEN(title)};

	for (size_t i = 0; i < ARRAY_LEN(title); i++)
		if (table_add(&t, title[i], err) < 0)
			return -1;
	for (size_t i = 0; i < json_len(list); i++)
		if (add_row(&t, json_at(list, i), err) < 0)
			return -1;
	return table_print(&t, err);
}

static int list(const struct ps *p, struct cay_error *err)
{
	_cleanup_(remote_freep) struct remote *r = NULL;
	_cleanup_(json_freep) struct json *all = NULL;

	if (remote_open(&r, err) < 0 ||
	    remote_list(r, p->all ? "/v1/sandboxes?all=true" : "/v1/sandboxes", "sandboxes", &all,
			err) < 0)
		return -1;
	return p->json ? cli_print_json(take_ptr(&all)) : print(json_get(all, "sandboxes"), err);
}

static int run(int argc, char **argv)
{
	struct ps p = {0};
	struct cay_error err;
	int r = verb_parse(&verb_ps, argc, argv, &p, NULL, 0, &err);

	if (r == 0)
		r = list(&p, &err);
	else if (r == 1)
		r = 0;
	return r < 0 ? cli_error(&err, p.json) : r;
}

const struct verb verb_ps = {
	.name = "ps",
	.summary = "list the live sandboxes",
	.usage = "[-a] [--json]",
	.about = "Lists the sandboxes of a daemon: since when they are there, when they were last\n"
		 "used, and when their time to live is over.\n",
	.examples = "  cay ps\n",
	.rows = rows,
	.n_rows = ARRAY_LEN(rows),
	.run = run,
};
