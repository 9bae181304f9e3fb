#include "settings/value.h"

#include "base/attr.h"
#include "base/parse.h"
#include "base/strv.h"
#include "core/address.h"
#include "core/egress.h"
#include "core/registry.h"
#include "settings/settings.h"
#include "spec/risk.h"
#include "spec/spec.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VERSION_MAX 31
#define HOST_MAX    253
#define USER_MAX    32

#define REFERENCE_MAX 512
#define ALIAS_MAX     64
#define SET_NAME_MAX  32

void value_init(void *base, const struct row *row)
{
	void *field = (char *)base + row->offset;

	if (row->kind == ROW_BOOL)
		*(bool *)field = row->initial != 0;
	else if (row->kind == ROW_COUNT || row->kind == ROW_SIZE || row->kind == ROW_TIME)
		*(uint64_t *)field = row->initial;
	else if (row->kind == ROW_MODE)
		*(enum mode *)field = (enum mode)row->initial;
	else if (row->kind == ROW_NETWORK)
		*(enum network_mode *)field = (enum network_mode)row->initial;
	else if (row->kind == ROW_TIER)
		*(enum tier *)field = (enum tier)row->initial;
	else if (row->kind == ROW_PULL)
		*(enum pull *)field = (enum pull)row->initial;
	else if (row->kind == ROW_LIVE)
		*(enum live_mode *)field = (enum live_mode)row->initial;
}

static int keep_failed(int r, struct cay_error *err)
{
	return cay_fail(err, CAY_E_INTERNAL, -r, "keep the settings");
}

static int add(struct strv *list, const char *text, struct cay_error *err)
{
	int r = strv_add(list, text);

	return r < 0 ? keep_failed(r, err) : 0;
}

static int keep(char **value, const char *text, struct cay_error *err)
{
	char *copy = strdup(text);

	if (!copy)
		return keep_failed(-ENOMEM, err);
	free(*value);
	*value = copy;
	return 0;
}

/*
 * Policy compares paths by their components, as resolved ones: a forbidden
 * path that could never match would be a hole, so such are refused here.
 */
static bool is_clean_path(const char *path)
{
	while (*path) {
		size_t n = strcspn(path, "/");

		if (n == 0 || (n == 1 && path[0] == '.') || (n == 2 && strncmp(path, "..", 2) == 0))
			return false;
		path += n + (path[n] == '/');
	}
	return true;
}

static int set_bool(bool *value, const char *key, const char *text, struct cay_error *err)
{
	int v;

	if (parse_bool(text, &v) < 0)
		return cay_fail(err, CAY_E_INVALID, 0, "%s can't be '%s': expected yes or no", key,
				text);
	*value = v != 0;
	return 0;
}

static int set_version(char **value, const char *key, const char *text, struct cay_error *err)
{
	size_t n = strspn(text, "0123456789.");

	if (n == 0 || n > VERSION_MAX || text[n] || text[0] == '.' || text[n - 1] == '.' ||
	    strstr(text, ".."))
		return cay_fail(err, CAY_E_INVALID, 0,
				"%s can't be '%s': expected a version such as 3.12", key, text);
	return keep(value, text, err);
}

static int check_path(const struct row *row, const char *text, struct cay_error *err)
{
	bool home = row->kind == ROW_HOME_PATHS;

	if (text[0] != '/' && !(home && strncmp(text, "~/", 2) == 0))
		return cay_fail(err, CAY_E_INVALID, 0,
				"%s can't be '%s': expected an absolute path%s", row->key, text,
				home ? ", or one that begins with ~/" : "");
	if (!is_clean_path(strchr(text, '/') + 1))
		return cay_fail(err, CAY_E_INVALID, 0,
				"%s can't be '%s': expected a path without '..', '.' and '//'",
				row->key, text);
	return 0;
}

static int set_number(uint64_t *value, const struct row *row, const char *text,
		      struct cay_error *err)
{
	bool size = row->kind == ROW_SIZE;
	uint64_t v;

	if ((size ? parse_size(text, row->min, row->max, &v)
		  : parse_u64(text, row->min, row->max, &v)) < 0)
		return cay_fail(err, CAY_E_INVALID, 0,
				"%s can't be '%s': expected a %s from %llu to %llu", row->key, text,
				size ? "size such as 512m," : "number",
				(unsigned long long)row->min, (unsigned long long)row->max);
	*value = v;
	return 0;
}

/* As in a Host header, in small letters; no port, no pattern. */
static int add_host(struct strv *list, const struct row *row, const char *text,
		    struct cay_error *err)
{
	size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789.-");

	if (n == 0 || n > HOST_MAX || text[n])
		return cay_fail(err, CAY_E_INVALID, 0,
				"%s can't be '%s': expected a host name in small letters", row->key,
				text);
	return add(list, text, err);
}

static int set_mode(enum mode *value, const char *key, const char *text, struct cay_error *err)
{
	enum mode m = mode_find(text);

	if (m == MODE_UNSAID)
		return cay_fail(err, CAY_E_INVALID, 0,
				"%s can't be '%s': expected all, selective or off", key, text);
	*value = m;
	return 0;
}

static int set_network(enum network_mode *value, const char *key, const char *text,
		       struct cay_error *err)
{
	enum network_mode m = network_mode_find(text);

	if (m == NETWORK_MODES)
		return cay_fail(err, CAY_E_INVALID, 0,
				"%s can't be '%s': expected none, allowlist or full", key, text);
	*value = m;
	return 0;
}

static int add_rule(struct strv *list, const char *key, const char *text, struct cay_error *err)
{
	struct domain_rule rule;
	char normal[DOMAIN_RULE_SIZE];

	if (domain_rule_parse(text, &rule, err) < 0)
		return cay_wrap(err, "%s", key);
	if (list->len == EGRESS_RULES_MAX)
		return cay_fail(err, CAY_E_INVALID, 0, "more than %d times %s", EGRESS_RULES_MAX,
				key);
	domain_rule_text(&rule, normal);
	return add(list, normal, err);
}

static int add_address(struct strv *list, const char *key, const char *text, struct cay_error *err)
{
	struct address_rule rule;

	if (address_rule_parse(text, &rule, err) < 0)
		return cay_wrap(err, "%s", key);
	return add(list, text, err);
}

/* What a reference or a glob of them can consist of; which it is, image/ finds out. */
static bool is_reference(const char *text)
{
	size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				"._:@/-[]*?");

	return n > 0 && n <= REFERENCE_MAX && !text[n];
}

static int add_word(struct strv *list, const char *key, const char *text, struct cay_error *err)
{
	if (!is_reference(text))
		return cay_fail(err, CAY_E_INVALID, 0,
				"%s can't be '%.64s': expected an image such as python:3.12-slim",
				key, text);
	return add(list, text, err);
}

static int set_word(char **value, const char *key, const char *text, struct cay_error *err)
{
	size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				"._-");

	if (n == 0 || n > ALIAS_MAX || text[n])
		return cay_fail(err, CAY_E_INVALID, 0, "%s can't be '%.64s': expected a name", key,
				text);
	return keep(value, text, err);
}

static int add_alias(struct strv *list, const char *key, const char *text, struct cay_error *err)
{
	size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789._-");

	if (n == 0 || n > ALIAS_MAX || text[n] != '=' || !is_reference(text + n + 1))
		return cay_fail(
			err, CAY_E_INVALID, 0,
			"%s can't be '%.64s': expected NAME=IMAGE, the name in small letters", key,
			text);
	return add(list, text, err);
}

/* Names of modules, with dots, and commas between them. */
static bool are_modules(const char *text)
{
	size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				"0123456789_.,");

	return n > 0 && text[n] == '\0' && text[0] != ',' && text[n - 1] != ',' &&
	       !strstr(text, ",,");
}

static int add_set(struct strv *list, const char *key, const char *text, struct cay_error *err)
{
	size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_-");

	if (n == 0 || n > SET_NAME_MAX || text[n] != '=' || !are_modules(text + n + 1))
		return cay_fail(err, CAY_E_INVALID, 0,
				"%s can't be '%.64s': expected NAME=MODULE,MODULE, the name in "
				"small letters",
				key, text);
	return add(list, text, err);
}

static int add_registry(struct strv *list, const char *key, const char *text, struct cay_error *err)
{
	char registry[REGISTRY_SIZE];

	if (registry_parse(text, strlen(text), registry) < 0)
		return cay_fail(err, CAY_E_INVALID, 0,
				"%s can't be '%.64s': expected a registry such as example.org:5000",
				key, text);
	return add(list, registry, err);
}

static int add_mirror(struct strv *list, const char *key, const char *text, struct cay_error *err)
{
	size_t len = strcspn(text, "=");
	char registry[REGISTRY_SIZE], url[REGISTRY_URL_SIZE];
	int r;

	if (!text[len] || registry_parse(text, len, registry) < 0 ||
	    registry_url_parse(text + len + 1, url) < 0)
		return cay_fail(err, CAY_E_INVALID, 0,
				"%s can't be '%.64s': expected REGISTRY=URL, such as "
				"docker.io=https://mirror.example.org",
				key, text);
	r = strv_addf(list, "%s=%s", registry, url);
	return r < 0 ? keep_failed(r, err) : 0;
}

static const char *const pull_names[PULLS] = {[PULL_MISSING] = "missing", [PULL_NEVER] = "never"};

static int set_pull(enum pull *value, const char *key, const char *text, struct cay_error *err)
{
	for (int p = 0; p < PULLS; p++)
		if (strcmp(text, pull_names[p]) == 0) {
			*value = (enum pull)p;
			return 0;
		}
	return cay_fail(err, CAY_E_INVALID, 0, "%s can't be '%s': expected missing or never", key,
			text);
}

static const char *const live_names[LIVE_MODES] = {
	[LIVE_OFF] = "off", [LIVE_NARROW] = "narrow", [LIVE_FULL] = "full"};

const char *live_mode_name(enum live_mode m)
{
	return live_names[m];
}

static int set_live(enum live_mode *value, const char *key, const char *text, struct cay_error *err)
{
	for (int m = 0; m < LIVE_MODES; m++)
		if (strcmp(text, live_names[m]) == 0) {
			*value = (enum live_mode)m;
			return 0;
		}
	return cay_fail(err, CAY_E_INVALID, 0, "%s can't be '%s': expected off, narrow or full",
			key, text);
}

static int set_time(uint64_t *value, const struct row *row, const char *text, struct cay_error *err)
{
	if (parse_duration(text, row->min, row->max, value) == 0)
		return 0;
	return cay_fail(err, CAY_E_INVALID, 0,
			"%s can't be '%.64s': expected seconds, or a time such as 90s, 30m, 12h",
			row->key, text);
}

/* Of engines: what is shorter than their names, and stays true when there are more. */
static const struct {
	const char *name;
	unsigned engines;
} engines_words[] = {{"all", ENGINES_ALL}, {"sandboxed", ENGINES_SANDBOXED}};

static bool engines_find_word(const char *text, unsigned *ret)
{
	for (size_t i = 0; i < ARRAY_LEN(engines_words); i++)
		if (strcmp(text, engines_words[i].name) == 0) {
			*ret = engines_words[i].engines;
			return true;
		}
	return false;
}

/* Such a word, or names of engines with commas between them. */
static int set_engines(unsigned *value, const char *key, const char *text, struct cay_error *err)
{
	unsigned engines = 0;

	if (engines_find_word(text, value))
		return 0;
	for (const char *at = text; *at;) {
		size_t n = strcspn(at, ",");
		char name[16];
		enum spec_engine e;

		(void)snprintf(name, sizeof(name), "%.*s", (int)(n < 15 ? n : 15), at);
		e = spec_engine_find(name);
		if (e == ENGINES || e == ENGINE_AUTO)
			return cay_fail(
				err, CAY_E_INVALID, 0,
				"%s can't be '%.64s': expected sandboxed, all, or names such "
				"as native, with commas between them",
				key, text);
		engines |= 1u << e;
		at += n + (at[n] == ',');
	}
	*value = engines;
	return 0;
}

static const char *const mounts_names[] = {
	[TIER_MOUNTS_NONE] = "none", [TIER_MOUNTS_READ] = "read", [TIER_MOUNTS_WRITE] = "write"};

const char *tier_mounts_name(enum tier_mounts m)
{
	return mounts_names[m];
}

static int set_mounts(enum tier_mounts *value, const char *key, const char *text,
		      struct cay_error *err)
{
	for (size_t m = 0; m < ARRAY_LEN(mounts_names); m++)
		if (strcmp(text, mounts_names[m]) == 0) {
			*value = (enum tier_mounts)m;
			return 0;
		}
	return cay_fail(err, CAY_E_INVALID, 0, "%s can't be '%.64s': expected none, read or write",
			key, text);
}

static int set_tier(enum tier *value, const char *key, const char *text, struct cay_error *err)
{
	enum tier t = tier_find(text);

	if (t == TIERS)
		return cay_fail(err, CAY_E_INVALID, 0,
				"%s can't be '%.64s': expected sandbox, restricted, standard, "
				"elevated or unrestricted",
				key, text);
	*value = t;
	return 0;
}

static int set_image(char **value, const char *key, const char *text, struct cay_error *err)
{
	if (!is_reference(text))
		return cay_fail(err, CAY_E_INVALID, 0,
				"%s can't be '%.64s': expected an image such as python:3.12-slim",
				key, text);
	return keep(value, text, err);
}

static int set_directory(char **value, const struct row *row, const char *text,
			 struct cay_error *err)
{
	size_t n = strlen(text);
	bool said = n > 3 && (strcmp(text + n - 3, ":ro") == 0 || strcmp(text + n - 3, ":rw") == 0);
	char *path = strndup(text, said ? n - 3 : n);
	int r = path ? check_path(row, path, err) : keep_failed(-ENOMEM, err);

	free(path);
	return r < 0 ? -1 : keep(value, text, err);
}

static int add_risk(struct strv *list, const char *key, const char *text, struct cay_error *err)
{
	char normal[RISK_SIZE];

	if (risk_parse(text, normal, err) < 0)
		return cay_wrap(err, "%s", key);
	return add(list, normal, err);
}

/* Whether there is such a user is found out by whoever needs one. */
static int set_user(char **value, const char *key, const char *text, struct cay_error *err)
{
	size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789._-"
				"ABCDEFGHIJKLMNOPQRSTUVWXYZ");

	if (n == 0 || n > USER_MAX || text[n] || text[0] == '-')
		return cay_fail(err, CAY_E_INVALID, 0,
				"%s can't be '%s': expected a user's name or number", key, text);
	if (strcmp(text, "root") == 0 || strspn(text, "0") == n)
		return cay_fail(err, CAY_E_INVALID, 0,
				"%s can't be '%s': nothing runs as root without a sandbox", key,
				text);
	return keep(value, text, err);
}

int value_set_limit(struct limits *limits, const struct limit_row *row, bool zero, const char *text,
		    struct cay_error *err)
{
	if (zero && strcmp(text, "0") == 0) {
		limit_set(limits, row, 0);
		return 0;
	}
	if (limit_parse(limits, row->name, text, err) < 0)
		return zero ? cay_hint(err, "0 means: not limited") : -1;
	return 0;
}

int value_set(void *base, const struct row *row, const char *text, ssize_t *ret_index,
	      struct cay_error *err)
{
	void *field = (char *)base + row->offset;
	struct strv *list = field;

	*ret_index = -1;
	switch (row->kind) {
	case ROW_BOOL:
		return set_bool(field, row->key, text, err);
	case ROW_COUNT:
	case ROW_SIZE:
		return set_number(field, row, text, err);
	case ROW_VERSION:
		return set_version(field, row->key, text, err);
	case ROW_MODE:
		return set_mode(field, row->key, text, err);
	case ROW_USER:
		return set_user(field, row->key, text, err);
	case ROW_NETWORK:
		return set_network(field, row->key, text, err);
	case ROW_WORD:
		return set_word(field, row->key, text, err);
	case ROW_PATH:
		return check_path(row, text, err) < 0 ? -1 : keep(field, text, err);
	case ROW_PATHS:
	case ROW_HOME_PATHS:
		*ret_index = (ssize_t)list->len;
		return check_path(row, text, err) < 0 ? -1 : add(list, text, err);
	case ROW_HOSTS:
		*ret_index = (ssize_t)list->len;
		return add_host(list, row, text, err);
	case ROW_RULES:
		*ret_index = (ssize_t)list->len;
		return add_rule(list, row->key, text, err);
	case ROW_WORDS:
		*ret_index = (ssize_t)list->len;
		return add_word(list, row->key, text, err);
	case ROW_ALIASES:
		*ret_index = (ssize_t)list->len;
		return add_alias(list, row->key, text, err);
	case ROW_SETS:
		*ret_index = (ssize_t)list->len;
		return add_set(list, row->key, text, err);
	case ROW_REGISTRIES:
		*ret_index = (ssize_t)list->len;
		return add_registry(list, row->key, text, err);
	case ROW_MIRRORS:
		*ret_index = (ssize_t)list->len;
		return add_mirror(list, row->key, text, err);
	case ROW_LIVE:
		return set_live(field, row->key, text, err);
	case ROW_PULL:
		return set_pull(field, row->key, text, err);
	case ROW_ADDRESSES:
		*ret_index = (ssize_t)list->len;
		return add_address(list, row->key, text, err);
	case ROW_RISKS:
		*ret_index = (ssize_t)list->len;
		return add_risk(list, row->key, text, err);
	case ROW_TIME:
		return set_time(field, row, text, err);
	case ROW_ENGINES:
		return set_engines(field, row->key, text, err);
	case ROW_MOUNTS:
		return set_mounts(field, row->key, text, err);
	case ROW_TIER:
		return set_tier(field, row->key, text, err);
	case ROW_IMAGE:
		return set_image(field, row->key, text, err);
	case ROW_DIRECTORY:
		return set_directory(field, row, text, err);
	}
	return -1;
}

static void write_milli(unsigned long long n, char *text)
{
	unsigned long long part = n % 1000;
	int digits = 3;

	if (part == 0) {
		(void)snprintf(text, VALUE_SIZE, "%llu", n / 1000);
		return;
	}
	for (; part % 10 == 0; part /= 10)
		digits--;
	(void)snprintf(text, VALUE_SIZE, "%llu.%0*llu", n / 1000, digits, part);
}

/* The largest unit that leaves no remainder, so that reading it back gives the same value. */
static void write_size(unsigned long long n, char *text)
{
	static const char *const units[] = {"", "k", "m", "g", "t"};
	size_t unit = 0;

	for (; n > 0 && n % 1024 == 0 && unit + 1 < ARRAY_LEN(units); unit++)
		n /= 1024;
	(void)snprintf(text, VALUE_SIZE, "%llu%s", n, units[unit]);
}

static void write_time(unsigned long long ms, char *text)
{
	if (ms % 1000 == 0)
		(void)snprintf(text, VALUE_SIZE, "%llu%s", ms / 1000, ms > 0 ? "s" : "");
	else
		(void)snprintf(text, VALUE_SIZE, "%llums", ms);
}

static void write_limit(const struct limit_row *limit, uint64_t v, char *text)
{
	unsigned long long n = v;

	switch (limit->unit) {
	case LIMIT_BYTES:
		write_size(n, text);
		break;
	case LIMIT_TIME:
		write_time(n, text);
		break;
	case LIMIT_MILLI:
		write_milli(n, text);
		break;
	case LIMIT_COUNT:
		(void)snprintf(text, VALUE_SIZE, "%llu", n);
		break;
	}
}

static void show_engines(unsigned engines, const char *key, value_show_fn *fn, void *ctx)
{
	char text[VALUE_SIZE * 2] = "";
	size_t len = 0;

	for (size_t i = 0; i < ARRAY_LEN(engines_words); i++)
		if (engines == engines_words[i].engines) {
			fn(ctx, key, -1, engines_words[i].name);
			return;
		}

	for (int e = ENGINE_AUTO + 1; e < ENGINES; e++)
		if (engines & 1u << e)
			len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s",
						len > 0 ? "," : "",
						spec_engine_name((enum spec_engine)e));
	fn(ctx, key, -1, text);
}

void value_show_limit(const struct limits *limits, const struct limit_row *row, value_show_fn *fn,
		      void *ctx)
{
	char text[VALUE_SIZE];

	write_limit(row, limit_get(limits, row), text);
	fn(ctx, row->name, -1, text);
}

void value_show(const void *base, const struct row *row, value_show_fn *fn, void *ctx)
{
	const void *field = (const char *)base + row->offset;
	const struct strv *list = field;
	char number[VALUE_SIZE];

	switch (row->kind) {
	case ROW_BOOL:
		fn(ctx, row->key, -1, *(const bool *)field ? "yes" : "no");
		break;
	case ROW_COUNT:
		(void)snprintf(number, sizeof(number), "%llu",
			       (unsigned long long)*(const uint64_t *)field);
		fn(ctx, row->key, -1, number);
		break;
	case ROW_SIZE:
		write_size(*(const uint64_t *)field, number);
		fn(ctx, row->key, -1, number);
		break;
	case ROW_MODE:
		fn(ctx, row->key, -1, mode_name(*(const enum mode *)field));
		break;
	case ROW_NETWORK:
		if (*(const enum network_mode *)field < NETWORK_MODES)
			fn(ctx, row->key, -1, network_mode_name(*(const enum network_mode *)field));
		break;
	case ROW_TIME:
		write_time(*(const uint64_t *)field, number);
		fn(ctx, row->key, -1, number);
		break;
	case ROW_ENGINES:
		show_engines(*(const unsigned *)field, row->key, fn, ctx);
		break;
	case ROW_MOUNTS:
		fn(ctx, row->key, -1, tier_mounts_name(*(const enum tier_mounts *)field));
		break;
	case ROW_TIER:
		if (*(const enum tier *)field < TIERS)
			fn(ctx, row->key, -1, tier_name(*(const enum tier *)field));
		break;
	case ROW_LIVE:
		fn(ctx, row->key, -1, live_mode_name(*(const enum live_mode *)field));
		break;
	case ROW_PULL:
		fn(ctx, row->key, -1, pull_names[*(const enum pull *)field]);
		break;
	case ROW_VERSION:
	case ROW_USER:
	case ROW_WORD:
	case ROW_PATH:
	case ROW_IMAGE:
	case ROW_DIRECTORY:
		if (*(char *const *)field)
			fn(ctx, row->key, -1, *(char *const *)field);
		break;
	case ROW_PATHS:
	case ROW_HOME_PATHS:
	case ROW_HOSTS:
	case ROW_RULES:
	case ROW_ADDRESSES:
	case ROW_RISKS:
	case ROW_WORDS:
	case ROW_SETS:
	case ROW_ALIASES:
	case ROW_REGISTRIES:
	case ROW_MIRRORS:
		for (size_t i = 0; i < list->len; i++)
			fn(ctx, row->key, (ssize_t)i, list->items[i]);
		break;
	}
}
