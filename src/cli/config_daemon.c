#include "cli/config_daemon.h"

#include "base/attr.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/parse.h"
#include "cli/cli.h"
#include "cli/remote.h"
#include "cli/remote_request.h"
#include "cli/remote_sandbox.h"
#include "cli/table.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PATH "/v1/settings"

static const char *text_of(const struct json *j, const char *name)
{
	const char *text = json_str(json_get(j, name));

	return text ? text : "";
}

static void each(const struct json *list, struct config_table *t)
{
	for (size_t i = 0; i < json_len(list); i++) {
		const struct json *s = json_at(list, i);

		config_show_line(t, text_of(s, "section"), text_of(s, "key"), text_of(s, "value"),
				 text_of(s, "origin"));
	}
}

static void show_all(const struct json *answer)
{
	const struct json *list = json_get(answer, "settings");
	const char *problem = text_of(answer, "problem");
	struct config_table t = {0};

	each(list, &t);
	t.print = true;
	each(list, &t);
	if (problem[0])
		cli_say("what was set at run time is not in force: %s", problem);
}

int config_daemon_show(bool json, struct cay_error *err)
{
	_cleanup_(remote_freep) struct remote *r = NULL;
	_cleanup_(json_freep) struct json *answer = NULL;
	const struct remote_ask ask = {.method = "GET", .path = PATH};
	const char *host = getenv("CAY_HOST");
	bool named = host && host[0];
	char place[300];
	int got;

	/* Those of this call's own are no daemon's. */
	if (!named && getenv("CAY_CONFIG"))
		return 1;
	got = named ? remote_open(&r, err) : remote_try(&r, err);
	if (got != 0 || remote_json(r, &ask, &answer, err) < 0)
		return named ? -1 : 1;
	if (json) {
		_cleanup_(buf_done) struct buf text = BUF(REMOTE_JSON_MAX);

		if (json_text(json_get(answer, "settings"), &text) < 0)
			return cay_fail(err, CAY_E_ENGINE, 0,
					"the daemon's answer has no settings");
		(void)fputs(buf_str(&text), stdout);
		return 0;
	}
	cli_note("in force at %s; --files shows what the files say here",
		 remote_place_text(remote_place(r), place));
	show_all(answer);
	return 0;
}

static int put(struct remote *r, const struct json *body, bool json, struct cay_error *err)
{
	_cleanup_(json_freep) struct json *answer = NULL;
	const struct remote_ask ask = {.method = "PUT", .path = PATH, .json = body};

	if (remote_json(r, &ask, &answer, err) < 0)
		return -1;
	if (json)
		return cli_print_json(take_ptr(&answer));
	(void)printf("version %lld\n", (long long)json_int(json_get(answer, "version")));
	return 0;
}

/* What the daemon has, and from which the change goes on: another's would be lost else. */
static int put_key(const char *name, struct json *value, bool json, struct cay_error *err)
{
	_cleanup_(remote_freep) struct remote *r = NULL;
	_cleanup_(json_freep) struct json *body = json_new_object();
	struct json *set = json_new_object();

	json_set(set, name, value);
	json_set(body, "set", set);
	return remote_open(&r, err) < 0 ? -1 : put(r, body, json, err);
}

static int which_key(struct cay_error *err)
{
	(void)cay_fail(err, CAY_E_INVALID, 0, "which key, and to what?");
	return cay_hint(err, "cay config set SECTION.KEY VALUE..., as in limits.memory 1g");
}

int config_daemon_set(const char *const words[], bool json, struct cay_error *err)
{
	struct json *values;

	if (!words[0] || !words[1])
		return which_key(err);
	values = json_new_array();
	for (size_t i = 1; words[i]; i++)
		json_add_str(values, words[i]);
	return put_key(words[0], values, json, err);
}

int config_daemon_unset(const char *const words[], bool json, struct cay_error *err)
{
	if (!words[0] || words[1])
		return which_key(err);
	return put_key(words[0], json_new_array(), json, err);
}

int config_daemon_rollback(const char *const words[], bool json, struct cay_error *err)
{
	_cleanup_(remote_freep) struct remote *r = NULL;
	_cleanup_(json_freep) struct json *body = json_new_object();
	uint64_t version;

	if (!words[0] || words[1] || parse_u64(words[0], 0, INT64_MAX, &version) < 0) {
		(void)cay_fail(err, CAY_E_INVALID, 0, "back to which version?");
		return cay_hint(err, "cay config history has their numbers; 0 is the files alone");
	}
	json_set_int(body, "version", (int64_t)version);
	return remote_open(&r, err) < 0 ? -1 : put(r, body, json, err);
}

/* "1g", "a, b"; "-" for none. */
static int join(const struct json *list, struct buf *ret)
{
	int r = json_len(list) == 0 ? buf_append_str(ret, "-") : 0;

	for (size_t i = 0; i < json_len(list) && r == 0; i++) {
		const char *text = json_str(json_at(list, i));

		r = buf_printf(ret, "%s%s", i ? ", " : "", text ? text : "?");
	}
	return r;
}

static int describe(const struct json *v, struct buf *ret)
{
	const struct json *changes = json_get(v, "changes");
	int64_t like = json_int(json_get(v, "restored"));
	int r = like > 0 ? buf_printf(ret, "back to %lld%s", (long long)like,
				      json_len(changes) ? ": " : "")
			 : 0;

	for (size_t i = 0; i < json_len(changes) && r == 0; i++) {
		const struct json *c = json_at(changes, i);

		r = buf_printf(ret, "%s%s: ", i ? "; " : "", text_of(c, "key"));
		if (r == 0)
			r = join(json_get(c, "was"), ret);
		if (r == 0)
			r = buf_append_str(ret, " -> ");
		if (r == 0)
			r = join(json_get(c, "is"), ret);
	}
	return r;
}

static int add_version(struct table *t, const struct json *v, struct cay_error *err)
{
	_cleanup_(buf_done) struct buf what = BUF(1u << 20);
	int64_t ago = (int64_t)time(NULL) * 1000 - json_int(json_get(v, "time"));
	char number[24], age[24];
	const char *cells[] = {number, age, text_of(v, "by"), NULL};

	(void)snprintf(number, sizeof(number), "%lld", (long long)json_int(json_get(v, "version")));
	(void)table_age(ago, age);
	if (describe(v, &what) < 0)
		return cay_fail(err, CAY_E_TOO_LARGE, 0, "the changes of version %s", number);
	cells[3] = buf_str(&what);
	for (size_t i = 0; i < ARRAY_LEN(cells); i++)
		if (table_add(t, cells[i], err) < 0)
			return -1;
	return 0;
}

int config_daemon_history(const char *const words[], bool json, struct cay_error *err)
{
	static const char *const title[] = {"VERSION", "AGE", "BY", "WHAT"};
	_cleanup_(remote_freep) struct remote *r = NULL;
	_cleanup_(json_freep) struct json *all = NULL;
	_cleanup_(table_done) struct table t = {.columns = ARRAY_LEN(title)};
	const struct json *list;

	if (words[0])
		return cay_fail(err, CAY_E_INVALID, 0, "config history takes nothing more");
	if (remote_open(&r, err) < 0 || remote_list(r, PATH "/history", "versions", &all, err) < 0)
		return -1;
	if (json)
		return cli_print_json(take_ptr(&all));
	list = json_get(all, "versions");
	for (size_t i = 0; i < ARRAY_LEN(title); i++)
		if (table_add(&t, title[i], err) < 0)
			return -1;
	for (size_t i = 0; i < json_len(list); i++)
		if (add_version(&t, json_at(list, i), err) < 0)
			return -1;
	return table_print(&t, err);
}
