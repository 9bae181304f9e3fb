#include "cli/cli.h"

#include "base/attr.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/parse.h"
#include "base/text.h"
#include "cli/options.h"
#include "cli/remote_request.h"
#include "cli/remote_sandbox.h"
#include "cli/table.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define KEY_WORDS_MAX 2

struct key_ask {
	const char *tier;
	struct json *quotas; /* NULL: none */
	bool json, all;
};

/* The API's names have underscores. */
static OPTION_SETTER(set_quota)
{
	struct key_ask *k = ctx;
	char name[32];
	uint64_t n;

	if (parse_u64(value, 1, INT32_MAX, &n) < 0)
		return cay_fail(err, CAY_E_INVALID, 0, "--%s can't be '%.64s': a number", row->name,
				value);
	(void)snprintf(name, sizeof(name), "%s", row->name);
	for (char *p = name; *p; p++)
		if (*p == '-')
			*p = '_';
	if (!k->quotas)
		k->quotas = json_new_object();
	json_set_int(k->quotas, name, (int64_t)n);
	return 0;
}

static const struct option_row rows[] = {
	{0, "tier", "NAME", "create: sandbox (default), standard, elevated ...",
	 OPTION_STORE(struct key_ask, tier)},
	{0, "parallel-runs", "N", "create: at once", .set = set_quota},
	{0, "runs-per-minute", "N", "create: begun in a minute", .set = set_quota},
	{0, "live-sandboxes", "N", "create: that live", .set = set_quota},
	{0, "cpu-seconds-per-day", "N", "create: of CPU time", .set = set_quota},
	{'a', "all", NULL, "list: also those that were revoked", OPTION_STORE(struct key_ask, all)},
	{0, "json", NULL, "as one JSON object", OPTION_STORE(struct key_ask, json)},
};

static int make(struct remote *r, struct key_ask *k, const char *name, struct cay_error *err)
{
	_cleanup_(json_freep) struct json *body = json_new_object(), *answer = NULL;
	struct remote_ask ask = {.method = "POST", .path = "/v1/keys", .json = body};
	const char *key;

	if (!name)
		return cay_fail(err, CAY_E_INVALID, 0, "what is the key called?");
	if (remote_request_str(body, "name", name, "the name", err) < 0 ||
	    (k->tier && remote_request_str(body, "tier", k->tier, "--tier", err) < 0))
		return -1;
	if (k->quotas)
		json_set(body, "quotas", take_ptr(&k->quotas));
	if (remote_json(r, &ask, &answer, err) < 0)
		return -1;
	if (k->json)
		return cli_print_json(take_ptr(&answer));
	key = json_str(json_get(answer, "key"));
	if (!key ||
	    strspn(key, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_") !=
		    strlen(key))
		return cay_fail(err, CAY_E_ENGINE, 0, "the daemon's answer is no key");
	(void)printf("%s\n", key);
	cli_note("this is the only time that it is shown");
	return 0;
}

static const char *age(int64_t ms, char text[24])
{
	return ms > 0 ? table_age((int64_t)time(NULL) * 1000 - ms, text) : "-";
}

static int add_row(struct table *t, const struct json *k, struct cay_error *err)
{
	char created[24], used[24];
	const char *cells[] = {
		json_str(json_get(k, "id")),
		json_str(json_get(k, "name")),
		json_str(json_get(k, "shown")),
		json_str(json_get(k, "tier")),
		age(json_int(json_get(k, "created")), created),
		json_int(json_get(k, "revoked")) > 0
			? "revoked"
			: age(json_int(json_get(k, "last_used")), used),
	};

	for (size_t i = 0; i < ARRAY_LEN(cells); i++)
		if (table_add(t, cells[i], err) < 0)
			return -1;
	return 0;
}

static int list_all(struct remote *r, struct key_ask *k, const char *word _unused_,
		    struct cay_error *err)
{
	static const char *const title[] = {"ID", "NAME", "KEY", "TIER", "CREATED", "USED"};
	_cleanup_(json_freep) struct json *all = NULL;
	_cleanup_(table_done) struct table t = {.columns = ARRAY_LEN(title)};
	const struct json *keys;

	if (remote_list(r, k->all ? "/v1/keys?revoked=true" : "/v1/keys", "keys", &all, err) < 0)
		return -1;
	if (k->json)
		return cli_print_json(take_ptr(&all));
	keys = json_get(all, "keys");
	for (size_t i = 0; i < ARRAY_LEN(title); i++)
		if (table_add(&t, title[i], err) < 0)
			return -1;
	for (size_t i = 0; i < json_len(keys); i++)
		if (add_row(&t, json_at(keys, i), err) < 0)
			return -1;
	return table_print(&t, err);
}

static int end(struct remote *r, struct key_ask *k _unused_, const char *id, struct cay_error *err)
{
	_cleanup_(buf_done) struct buf path = BUF(1024);
	_cleanup_(json_freep) struct json *answer = NULL;
	struct remote_ask ask = {.method = "DELETE"};

	if (!id || !id[0] || id[0] == '.') {
		(void)cay_fail(err, CAY_E_INVALID, 0, "which key?");
		return cay_hint(err, "cay key list has their ids");
	}
	if (buf_append_str(&path, "/v1/keys/") < 0 || text_append_encoded(&path, id) < 0)
		return cay_fail(err, CAY_E_TOO_LARGE, 0, "the key's id");
	ask.path = buf_str(&path);
	return remote_json(r, &ask, &answer, err);
}

static const struct {
	const char *name;
	int (*run)(struct remote *r, struct key_ask *k, const char *word, struct cay_error *err);
} kinds[] = {{"create", make}, {"list", list_all}, {"revoke", end}};

static int carry_out(struct key_ask *k, const char *const words[KEY_WORDS_MAX],
		     struct cay_error *err)
{
	_cleanup_(remote_freep) struct remote *r = NULL;

	for (size_t i = 0; words[0] && i < ARRAY_LEN(kinds); i++) {
		if (strcmp(words[0], kinds[i].name) != 0)
			continue;
		return remote_open(&r, err) < 0 ? -1 : kinds[i].run(r, k, words[1], err);
	}
	(void)cay_fail(err, CAY_E_INVALID, 0, "cay key: what about them?");
	return cay_hint(err, "cay key create NAME, cay key list, or cay key revoke ID");
}

static int run(int argc, char **argv)
{
	const char *words[KEY_WORDS_MAX];
	struct key_ask k = {0};
	struct cay_error err;
	int r = verb_parse(&verb_key, argc, argv, &k, words, KEY_WORDS_MAX, &err);

	if (r == 0)
		r = carry_out(&k, words, &err);
	else if (r == 1)
		r = 0;
	json_free(k.quotas);
	return r < 0 ? cli_error(&err, k.json) : r;
}

const struct verb verb_key = {
	.name = "key",
	.summary = "make, list and revoke the keys of a daemon's API",
	.usage = "create [options] NAME | list [-a] [--json] | revoke ID",
	.about = "Keys are for clients that reach a daemon over TCP, who have theirs in\n"
		 "CAY_API_KEY. A new one is printed once: the daemon itself keeps only its hash.\n",
	.examples = "  cay key create --parallel-runs 4 ci\n"
		    "  cay key list\n"
		    "  cay key revoke key_4x0c2m7q1v9d8s5a\n",
	.argument = "create|list|revoke",
	.rows = rows,
	.n_rows = ARRAY_LEN(rows),
	.run = run,
};
