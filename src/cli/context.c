#include "cli/cli.h"

#include "base/attr.h"
#include "base/buf.h"
#include "base/json.h"
#include "cli/cell.h"
#include "cli/options.h"
#include "cli/remote_sandbox.h"
#include "cli/table.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define CONTEXT_WORDS_MAX 3
#define PATH_BYTES_MAX    1024

struct context_ask {
	bool json;
};

static const struct option_row rows[] = {
	{0, "json", NULL, "list: as one JSON object", OPTION_STORE(struct context_ask, json)},
};

static int add_row(struct table *t, const struct json *c, struct cay_error *err)
{
	char used[24], ended[24], queued[24];
	const bool asks = json_kind(json_get(c, "waiting_for_input")) == JSON_KIND_OBJECT;
	const char *cells[] = {
		json_str(json_get(c, "name")),
		json_str(json_get(c, "language")),
		json_str(json_get(c, "version")),
		asks ? "asks" : json_str(json_get(c, "state")),
		ended,
		queued,
		table_age((int64_t)time(NULL) * 1000 - json_int(json_get(c, "last_used")), used),
	};

	(void)snprintf(ended, sizeof(ended), "%lld", (long long)json_int(json_get(c, "cells")));
	(void)snprintf(queued, sizeof(queued), "%lld", (long long)json_int(json_get(c, "queued")));
	for (size_t i = 0; i < ARRAY_LEN(cells); i++)
		if (table_add(t, cells[i], err) < 0)
			return -1;
	return 0;
}

static int list_all(struct remote *r, const char *sandbox, bool as_json, struct cay_error *err)
{
	static const char *const title[] = {"NAME",  "LANGUAGE", "VERSION", "STATE",
					    "CELLS", "QUEUED",   "USED"};
	_cleanup_(buf_done) struct buf path = {0};
	_cleanup_(json_freep) struct json *all = NULL;
	_cleanup_(table_done) struct table t = {.columns = ARRAY_LEN(title)};
	const struct json *list;

	if (remote_sandbox_path(&path, sandbox, "/contexts", err) < 0 ||
	    remote_list(r, buf_str(&path), "contexts", &all, err) < 0)
		return -1;
	if (as_json)
		return cli_print_json(take_ptr(&all));
	list = json_get(all, "contexts");
	for (size_t i = 0; i < ARRAY_LEN(title); i++)
		if (table_add(&t, title[i], err) < 0)
			return -1;
	for (size_t i = 0; i < json_len(list); i++)
		if (add_row(&t, json_at(list, i), err) < 0)
			return -1;
	return table_print(&t, err);
}

/* What is done to one. */
static const struct {
	const char *name, *method, *rest;
} kinds[] = {
	{"rm", "DELETE", ""}, {"restart", "POST", "/restart"}, {"interrupt", "POST", "/interrupt"}};

static int change(struct remote *r, size_t kind, const char *sandbox, const char *name,
		  struct cay_error *err)
{
	_cleanup_(buf_done) struct buf path = BUF(PATH_BYTES_MAX);
	_cleanup_(json_freep) struct json *answer = NULL;

	if (!name) {
		(void)cay_fail(err, CAY_E_INVALID, 0, "which context?");
		return cay_hint(err, "cay context list SANDBOX has their names");
	}
	if (cell_path(&path, name, kinds[kind].rest, err) < 0)
		return -1;
	return remote_sandbox_ask(r, kinds[kind].method, sandbox, buf_str(&path), NULL, &answer,
				  err);
}

static int carry_out(const struct context_ask *c, const char *const words[CONTEXT_WORDS_MAX],
		     struct cay_error *err)
{
	_cleanup_(remote_freep) struct remote *r = NULL;
	const char *what = words[0] ? words[0] : "";
	bool list = strcmp(what, "list") == 0;
	size_t kind = 0;

	while (kind < ARRAY_LEN(kinds) && strcmp(what, kinds[kind].name) != 0)
		kind++;
	if (!list && kind == ARRAY_LEN(kinds)) {
		(void)cay_fail(err, CAY_E_INVALID, 0, "cay context: what about them?");
		return cay_hint(err, "cay context list SANDBOX, or cay context "
				     "rm|restart|interrupt SANDBOX NAME");
	}
	if (!words[1])
		return remote_sandbox_which(err);
	if (list && words[2])
		return cay_fail(err, CAY_E_INVALID, 0, "list takes a sandbox alone");
	if (remote_open(&r, err) < 0)
		return -1;
	return list ? list_all(r, words[1], c->json, err)
		    : change(r, kind, words[1], words[2], err);
}

static int run(int argc, char **argv)
{
	const char *words[CONTEXT_WORDS_MAX];
	struct context_ask c = {0};
	struct cay_error err;
	int r = verb_parse(&verb_context, argc, argv, &c, words, CONTEXT_WORDS_MAX, &err);

	if (r == 0)
		r = carry_out(&c, words, &err);
	else if (r == 1)
		r = 0;
	return r < 0 ? cli_error(&err, c.json) : r;
}

const struct verb verb_context = {
	.name = "context",
	.summary = "the interpreters of a sandbox that remember",
	.usage = "list [--json] SANDBOX | rm|restart|interrupt SANDBOX NAME",
	.about = "Contexts are started by cay exec --context and cay shell --python. rm ends one,\n"
		 "restart ends it and starts a fresh one, interrupt ends only its cell.\n",
	.examples = "  cay context list work\n"
		    "  cay context restart work main\n",
	.argument = "list|rm|restart|interrupt",
	.rows = rows,
	.n_rows = ARRAY_LEN(rows),
	.run = run,
};
