#include "cli/cli.h"

#include "base/attr.h"
#include "base/buf.h"
#include "base/json.h"
#include "cli/options.h"
#include "cli/remote_sandbox.h"
#include "cli/table.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define NAME_MAX_BYTES 256
#define SHOW_DEPTH_MAX 8

static const struct option_row rows[] = {
	{0, "json", NULL, "as one JSON object", .set = option_store_flag},
};

static int add(struct table *t, const char *name, const char *value, struct cay_error *err)
{
	return table_add(t, name, err) < 0 ? -1 : table_add(t, value, err);
}

static int add_value(struct table *t, const char *name, const struct json *v, int depth,
		     struct cay_error *err);

/* "limits.memory" */
static int add_below(struct table *t, const char *name, const struct json *v, int depth,
		     struct cay_error *err)
{
	const struct json *value;
	const char *key;
	void *at = NULL;

	while (json_next(v, &at, &key, &value)) {
		char full[NAME_MAX_BYTES];

		(void)snprintf(full, sizeof(full), "%s%s%s", name, name[0] ? "." : "", key);
		if (add_value(t, full, value, depth + 1, err) < 0)
			return -1;
	}
	return 0;
}

static int add_array(struct table *t, const char *name, const struct json *v, struct cay_error *err)
{
	_cleanup_(buf_done) struct buf words = BUF(64u << 10);

	for (size_t i = 0; i < json_len(v); i++)
		if (json_str(json_at(v, i)))
			(void)buf_printf(&words, "%s%s", words.len ? " " : "",
					 json_str(json_at(v, i)));
	return add(t, name, buf_str(&words), err);
}

/* Milliseconds since 1970, where it says so; else the number. */
static void format_int(const char *name, int64_t v, char text[40])
{
	static const char *const times[] = {"created", "last_used", "expires"};
	time_t seconds = (time_t)(v / 1000);
	struct tm tm;

	(void)snprintf(text, 40, "%" PRId64, v);
	for (size_t i = 0; i < ARRAY_LEN(times); i++)
		if (strcmp(name, times[i]) == 0 && localtime_r(&seconds, &tm))
			(void)strftime(text, 40, "%Y-%m-%d %H:%M:%S %z", &tm);
}

static int add_value(struct table *t, const char *name, const struct json *v, int depth,
		     struct cay_error *err)
{
	char text[40] = "";

	switch (json_kind(v)) {
	case JSON_KIND_OBJECT:
		return depth > SHOW_DEPTH_MAX ? 0 : add_below(t, name, v, depth, err);
	case JSON_KIND_ARRAY:
		return add_array(t, name, v, err);
	case JSON_KIND_STR:
		return add(t, name, json_str(v), err);
	case JSON_KIND_BOOL:
		return add(t, name, json_bool(v) ? "yes" : "no", err);
	case JSON_KIND_INT:
		format_int(name, json_int(v), text);
		break;
	case JSON_KIND_REAL:
		(void)snprintf(text, sizeof(text), "%.3f", json_number(v));
		break;
	case JSON_KIND_NULL:
		break;
	}
	return add(t, name, text, err);
}

static int show(const char *id, bool json, struct cay_error *err)
{
	_cleanup_(remote_freep) struct remote *r = NULL;
	_cleanup_(json_freep) struct json *j = NULL;
	_cleanup_(table_done) struct table t = {.columns = 2};

	if (remote_open(&r, err) < 0 || remote_sandbox_ask(r, "GET", id, "", NULL, &j, err) < 0)
		return -1;
	if (json)
		return cli_print_json(take_ptr(&j));
	if (add(&t, "WHAT", "VALUE", err) < 0 || add_value(&t, "", j, 0, err) < 0)
		return -1;
	return table_print(&t, err);
}

static int run(int argc, char **argv)
{
	const char *id = NULL;
	struct cay_error err;
	bool json = false;
	int r = verb_parse(&verb_show, argc, argv, &json, &id, 1, &err);

	if (r == 1)
		return 0;
	if (r == 0 && !id)
		r = remote_sandbox_which(&err);
	if (r == 0)
		r = show(id, json, &err);
	return r < 0 ? cli_error(&err, json) : r;
}

const struct verb verb_show = {
	.name = "show",
	.summary = "all there is to know of a sandbox",
	.usage = "[--json] SANDBOX",
	.about = "Shows a sandbox, by its id or name: its state, limits, what holds it, and what\n"
		 "it uses.\n",
	.examples = "  cay show work\n",
	.argument = "SANDBOX",
	.rows = rows,
	.n_rows = ARRAY_LEN(rows),
	.run = run,
};
