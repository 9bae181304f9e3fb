#include "api/settings.h"

#include "api/api.h"
#include "api/caller.h"
#include "api/events.h"
#include "api/exchange.h"
#include "api/paging.h"
#include "api/router.h"
#include "api/runs.h"
#include "base/attr.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/handover.h"
#include "base/json.h"
#include "base/log.h"
#include "base/parse.h"
#include "policy/mode.h"
#include "session/quota.h"
#include "settings/live.h"
#include "spec/fields.h"
#include "store/settings.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define BODY_MAX (4 * LIVE_TEXT_MAX)
#define KEYS_MAX 256

/* The supervisor's own patience (base/handover.h), twice, and more. */
#define HAND_ON_MS (3 * HANDOVER_MS)

/* What a text comes to, with the files. */
static int lay(const struct api *api, const char *text, int64_t version, struct settings *ret,
	       struct cay_error *err)
{
	if (api->base.serve_settings == LIVE_OFF && text[0]) {
		settings_init(ret);
		(void)cay_fail(err, CAY_E_POLICY, 0, "settings can't be changed at run time");
		return cay_hint(err, "[serve] settings in a settings file allows it");
	}
	if (live_lay(&api->settings_parts, &api->base, text, version, ret, err) < 0)
		return -1;
	return mode_check_settings(ret, err);
}

/* Launcher and cay-egress go by it then; their supervisor judges it again. */
static int hand_on(const struct api *api, const char *text, struct cay_error *err)
{
	struct pollfd wait = {.fd = api->live_fd, .events = POLLIN};
	struct cay_error answer;
	size_t none = 0;
	ssize_t n;
	int r;

	if (api->live_fd < 0)
		return 0;
	/* An answer that came too late is to what was asked before. */
	while (recv(wait.fd, &answer, sizeof(answer), MSG_DONTWAIT) > 0)
		;
	n = msg_send(wait.fd, text, strlen(text) + 1, NULL, 0);
	do
		r = n == 0 ? poll(&wait, 1, HAND_ON_MS) : 1;
	while (r < 0 && errno == EINTR);
	if (r <= 0)
		n = -ETIMEDOUT;
	if (n == 0)
		n = msg_recv(wait.fd, &answer, sizeof(answer), NULL, 0, &none);
	if (n != (ssize_t)sizeof(answer))
		return cay_fail(err, CAY_E_INTERNAL, n < 0 ? (int)-n : EPIPE,
				"have the settings handed on");
	*err = answer;
	return answer.code == CAY_OK ? 0 : -1;
}

static void put_in_force(struct api *api, const struct settings *s)
{
	settings_done(&api->settings);
	api->settings = *s;
	quota_set_total(api->quota, &(struct key_quotas){
					    .parallel_runs = (int64_t)s->serve_max_runs,
					    .live_sandboxes = (int64_t)s->serve_max_sandboxes,
				    });
	runs_serve(api->runs);
}

static int apply(struct api *api, const char *text, int64_t version, struct cay_error *err)
{
	struct settings now;
	int r = lay(api, text, version, &now, err);

	api->live = (struct live_state){.version = version, .in_force = r == 0};
	if (r == 0) {
		put_in_force(api, &now);
	} else {
		api->live.problem = *err;
		settings_done(&now);
	}
	return r;
}

static void resume(void *ctx, const struct settings_version *v)
{
	struct api *api = ctx;
	struct cay_error err, unused;
	char version[24];

	if (apply(api, v->text, v->version, &err) == 0 && hand_on(api, v->text, &err) == 0)
		return;
	/* What the others have may be from before a crash. */
	(void)hand_on(api, "", &unused);
	if (api->live.in_force) {
		(void)apply(api, "", v->version, &unused);
		api->live.in_force = false;
		api->live.problem = err;
	}
	(void)snprintf(version, sizeof(version), "%lld", (long long)v->version);
	log_warning("what was set at run time does not fit the settings files any more, which "
		    "alone are in force",
		    "version", version, "why", err.text);
}

int settings_resume(struct api *api, struct cay_error *err)
{
	return store_settings_get(api->store, 0, resume, api, err);
}

/* What is asked of them */

struct change {
	char *text;             /* whole; or NULL */
	const struct json *set; /* keys of it; or NULL */
	int64_t like;           /* a version that was; or -1 */
	int64_t expected;       /* the latest, as whoever asks knows it; -1: any */
	bool dry_run;
};

static struct change *change_of(struct reader *r)
{
	return r->into;
}

static int set_text(struct reader *r, const struct json *v, struct cay_error *err)
{
	return field_copy(v, &change_of(r)->text, err);
}

static int set_set(struct reader *r, const struct json *v, struct cay_error *err)
{
	change_of(r)->set = v;
	return json_len(v) <= KEYS_MAX ? 0 : field_too_many(err, KEYS_MAX);
}

static int read_version(const struct json *v, int64_t *ret, struct cay_error *err)
{
	*ret = json_int(v);
	return *ret >= 0 ? 0 : field_invalid(err, "no version has this number");
}

static int set_version(struct reader *r, const struct json *v, struct cay_error *err)
{
	return read_version(v, &change_of(r)->like, err);
}

static int set_expected(struct reader *r, const struct json *v, struct cay_error *err)
{
	return read_version(v, &change_of(r)->expected, err);
}

static int set_dry_run(struct reader *r, const struct json *v, struct cay_error *err _unused_)
{
	change_of(r)->dry_run = json_bool(v);
	return 0;
}

static const struct field fields[] = {
	{"text", TAKES_STR, set_text, 0},        {"set", TAKES_OBJECT, set_set, 0},
	{"version", TAKES_INT, set_version, 0},  {"if_version", TAKES_INT, set_expected, 0},
	{"dry_run", TAKES_BOOL, set_dry_run, 0},
};

/* "7", with or without quotes; or *. */
static int read_if_match(const char *text, int64_t *ret, struct cay_error *err)
{
	size_t quoted = text[0] == '"', n = strlen(text);
	char number[24];
	uint64_t version;

	if (strcmp(text, "*") == 0)
		return 0;
	(void)snprintf(number, sizeof(number), "%s", text + quoted);
	if (quoted && n >= 2 && n < sizeof(number) && text[n - 1] == '"')
		number[n - 2] = '\0';
	if (parse_u64(number, 0, INT64_MAX, &version) < 0)
		return cay_fail(err, CAY_E_INVALID, 0, "If-Match: not a version of the settings");
	*ret = (int64_t)version;
	return 0;
}

/* body: what the change borrows from. */
static int read_change(struct exchange *x, struct json **body, struct change *ret,
		       struct cay_error *err)
{
	const struct request *q = exchange_request(x);
	const char *match = request_header(q, "if-match");
	struct reader r = {.into = ret};

	*ret = (struct change){.like = -1, .expected = -1};
	if (fields_parse(q->body, q->body_len, BODY_MAX, body, err) < 0)
		return cay_wrap(err, "the request");
	if (fields_read(&r, fields, ARRAY_LEN(fields), *body, err) < 0)
		return reader_fail(&r, err);
	if ((ret->text != NULL) + (ret->set != NULL) + (ret->like >= 0) != 1) {
		(void)cay_fail(err, CAY_E_INVALID, 0, "the request: one of text, set and version");
		return cay_hint(err, "the whole text; some keys; or a version to go back to");
	}
	return match ? read_if_match(match, &ret->expected, err) : 0;
}

/* Values as a file has them. */
static int add_value(struct strv *values, const struct json *v, struct cay_error *err)
{
	char number[40];
	const char *text = json_kind(v) == JSON_KIND_BOOL  ? (json_bool(v) ? "yes" : "no")
			   : json_kind(v) == JSON_KIND_STR ? json_str(v)
			   : json_kind(v) == JSON_KIND_INT || json_kind(v) == JSON_KIND_REAL
				   ? field_number(v, number, sizeof(number))
				   : NULL;

	if (!text)
		return field_invalid(err, "expected a text, a number, true or false, a list of "
					  "these, or null");
	return strv_add(values, text) < 0 ? field_no_memory(err) : 0;
}

/* null: none. */
static int read_values(const struct json *v, struct strv *ret, struct cay_error *err)
{
	if (json_kind(v) == JSON_KIND_NULL)
		return 0;
	if (json_kind(v) != JSON_KIND_ARRAY)
		return add_value(ret, v, err);
	for (size_t i = 0; i < json_len(v); i++)
		if (add_value(ret, json_at(v, i), err) < 0)
			return -1;
	return 0;
}

static int edit(struct buf *text, const char *name, const struct json *v, struct cay_error *err)
{
	_cleanup_(strv_done) struct strv values = {0};
	_cleanup_(buf_done) struct buf next = BUF(LIVE_TEXT_MAX);
	struct buf was;

	if (read_values(v, &values, err) < 0 ||
	    live_edit(buf_str(text), name, &values, &next, err) < 0)
		return cay_wrap(err, "set.%.64s", name);
	was = *text;
	*text = next;
	next = was;
	return 0;
}

static int keep_text(struct buf *to, const char *text, struct cay_error *err)
{
	int r = buf_append_str(to, text);

	if (r == -EFBIG)
		return cay_fail(err, CAY_E_TOO_LARGE, 0, "the settings have more than %u KiB",
				LIVE_TEXT_MAX >> 10);
	return r < 0 ? field_no_memory(err) : 0;
}

static void copy_text(void *ctx, const struct settings_version *v)
{
	struct cay_error unused;

	(void)keep_text(ctx, v->text, &unused);
}

/* The text that the change comes to. */
static int make_text(struct api *api, const struct change *c, struct buf *ret,
		     struct cay_error *err)
{
	const struct json *value;
	const char *name;
	void *at = NULL;

	if (c->text)
		return keep_text(ret, c->text, err);
	if (c->like == 0)
		return 0;
	if (store_settings_get(api->store, c->set ? 0 : c->like, copy_text, ret, err) < 0)
		return -1;
	while (c->set && json_next(c->set, &at, &name, &value))
		if (edit(ret, name, value, err) < 0)
			return -1;
	return 0;
}

/* What they are */

struct listing {
	struct json *list;
	enum live_mode mode;
};

static void add_setting(void *ctx, const char *section, const char *key, const char *value,
			const char *origin)
{
	const struct listing *l = ctx;
	struct json *o = json_new_object();
	enum live_rule rule = live_rule_of(l->mode, section, key);
	char kind[32];

	/* "scope session" is a section of its own, "tier NAME" one of a kind. */
	(void)snprintf(kind, sizeof(kind), "%.*s", (int)strcspn(section, " "), section);
	if (rule == LIVE_FILE)
		rule = live_rule_of(l->mode, kind, key);
	json_set_str(o, "section", section);
	json_set_str(o, "key", key);
	json_set_str(o, "value", value);
	json_set_str(o, "origin", origin);
	json_set_str(o, "changes", live_rule_name(rule));
	json_add(l->list, o);
}

static void set_version_of(struct json *j, const struct settings_version *v)
{
	char actor[OWNER_SIZE];

	json_set_int(j, "version", v->version);
	if (v->version) {
		json_set_int(j, "time", v->time_ms);
		json_set_str(j, "by", owner_text(&v->actor, actor));
	} else {
		json_set_null(j, "time");
		json_set_null(j, "by");
	}
	if (v->restored)
		json_set_int(j, "restored", v->restored);
	else
		json_set_null(j, "restored");
	json_set_str(j, "text", v->text);
}

struct answer {
	struct json *json;
};

static void describe(void *ctx, const struct settings_version *v)
{
	set_version_of(((struct answer *)ctx)->json, v);
}

/* s: in force, or what would be. */
static void answer_with(struct exchange *x, const struct settings *s, const char *would)
{
	_cleanup_(json_freep) struct json *j = json_new_object();
	struct answer a = {.json = j};
	struct api *api = api_of(x);
	struct listing l = {json_new_array(), api->base.serve_settings};
	struct cay_error err;
	char tag[32];

	if (store_settings_get(api->store, 0, describe, &a, &err) < 0) {
		json_free(l.list);
		exchange_fail(x, &err);
		return;
	}
	if (would)
		json_set_str(j, "text", would);
	json_set_str(j, "may", live_mode_name(api->base.serve_settings));
	json_set_str(j, "problem", api->live.in_force ? NULL : api->live.problem.text);
	settings_show(s, add_setting, &l);
	json_set(j, "settings", l.list);
	(void)snprintf(tag, sizeof(tag), "\"%lld\"", (long long)api->live.version);
	exchange_header(x, "ETag", tag);
	exchange_respond_json(x, 200, j);
}

static void settings_get(struct exchange *x)
{
	if (caller_is_operator(x))
		answer_with(x, &api_of(x)->settings, NULL);
}

static void tell(struct api *api, const struct settings_version *v, int64_t version)
{
	struct json *j = json_new_object();
	char actor[OWNER_SIZE];

	json_set_int(j, "version", version);
	json_set_str(j, "by", owner_text(&v->actor, actor));
	event_publish(api, "settings.changed", &v->actor, j);
}

static int keep(struct exchange *x, const struct change *c, const char *text, struct cay_error *err)
{
	struct api *api = api_of(x);
	const struct settings_version v = {
		.time_ms = clock_wall_ms(),
		.actor = caller_of(x)->viewer.owner,
		.restored = c->like > 0 ? c->like : 0,
		.text = text,
	};
	int64_t version;
	char target[40], number[24];
	struct cay_error unused;

	/* What can't be handed on is not kept, and what can't be kept not handed on. */
	if (hand_on(api, text, err) < 0 ||
	    store_settings_put(api->store, &v, c->expected, &version, err) < 0) {
		(void)settings_resume(api, &unused);
		return -1;
	}
	if (apply(api, text, version, err) < 0)
		return -1;
	(void)snprintf(number, sizeof(number), "%lld", (long long)version);
	(void)snprintf(target, sizeof(target), "version %s", number);
	exchange_set_target(x, target);
	log_info("the settings were changed", "version", number);
	if (events_followed(api))
		tell(api, &v, version);
	return 0;
}

static int change(struct exchange *x, const struct change *c, struct cay_error *err)
{
	_cleanup_(buf_done) struct buf text = BUF(LIVE_TEXT_MAX);
	_cleanup_(settings_done) struct settings would;
	struct api *api = api_of(x);
	int r;

	settings_init(&would);
	if (c->expected >= 0 && c->expected != api->live.version)
		return cay_fail(err, CAY_E_CONFLICT, 0,
				"the settings are of version %lld, and not %lld any more",
				(long long)api->live.version, (long long)c->expected);
	if (make_text(api, c, &text, err) < 0)
		return -1;
	r = lay(api, buf_str(&text), api->live.version + 1, &would, err);
	if (r == 0 && !c->dry_run)
		r = keep(x, c, buf_str(&text), err);
	if (r == 0)
		answer_with(x, c->dry_run ? &would : &api->settings,
			    c->dry_run ? buf_str(&text) : NULL);
	return r;
}

static void settings_put(struct exchange *x)
{
	_cleanup_(json_freep) struct json *body = NULL;
	struct change c = {0};
	struct cay_error err;

	if (!caller_is_operator(x))
		return;
	if (read_change(x, &body, &c, &err) < 0 || change(x, &c, &err) < 0)
		exchange_fail(x, &err);
	free(c.text);
}

/* What was */

static struct json *texts_json(const struct strv *list)
{
	struct json *j = json_new_array();

	for (size_t i = 0; i < list->len; i++)
		json_add_str(j, list->items[i]);
	return j;
}

static void add_change(void *ctx, const char *name, const struct strv *was, const struct strv *is)
{
	struct json *j = json_new_object();

	json_set_str(j, "key", name);
	json_set(j, "was", texts_json(was));
	json_set(j, "is", texts_json(is));
	json_add(ctx, j);
}

static void add_version(void *ctx, const struct settings_version *v)
{
	struct json *j = json_new_object(), *changes = json_new_array();

	set_version_of(j, v);
	(void)live_diff(v->before, v->text, add_change, changes);
	json_set(j, "changes", changes);
	json_add(ctx, j);
}

static void settings_history(struct exchange *x)
{
	struct json *list;
	struct page page;
	struct cay_error err;

	if (!caller_is_operator(x))
		return;
	list = json_new_array();
	if (paging_read(x, &page, &err) == 0 &&
	    store_settings_list(api_of(x)->store, &page, add_version, list, &err) == 0) {
		paging_answer(x, "versions", list, &page);
		return;
	}
	json_free(list);
	exchange_fail(x, &err);
}

const struct route route_settings_get = {
	.method = "GET", .pattern = "/v1/settings", .handle = settings_get, .name = "settings.get"};
const struct route route_settings_put = {
	.method = "PUT",
	.pattern = "/v1/settings",
	.handle = settings_put,
	.max_body = BODY_MAX,
	.name = "settings.put",
};
const struct route route_settings_history = {.method = "GET",
					     .pattern = "/v1/settings/history",
					     .handle = settings_history,
					     .name = "settings.history"};
