#include "settings/live.h"

#include "base/attr.h"
#include "core/limit.h"
#include "settings/rows.h"
#include "settings/value.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* What is not here takes a file. */
static const struct live_row {
	const char *section, *key;   /* NULL: all of them */
	enum live_rule narrow, full; /* by [serve] settings */
} rows[] = {
	/* What is asked for is held to [maximum] all the same. */
	{"limits", NULL, LIVE_ANY, LIVE_ANY},
	/* Launcher and cay-egress hold to these as the files have them, or were handed them. */
	{"maximum", NULL, LIVE_LESS, LIVE_ANY},
	{"mounts", NULL, LIVE_FILE, LIVE_ANY},
	{"isolation", NULL, LIVE_LESS, LIVE_ANY},
	{"engine", NULL, LIVE_LESS, LIVE_ANY},
	{"network", "block", LIVE_ANY, LIVE_ANY}, /* blocks more */
	{"network", "mode", LIVE_LESS, LIVE_ANY},
	{"network", "total_connections", LIVE_FILE, LIVE_FILE}, /* there are fds for so many */
	{"network", NULL, LIVE_FILE, LIVE_ANY},
	{"tier", NULL, LIVE_LESS, LIVE_ANY},
	{"selective", NULL, LIVE_ANY, LIVE_ANY}, /* sandboxes more */
	/* What is theirs is held to the rest as what requests ask for is. */
	{"scope session", NULL, LIVE_ANY, LIVE_ANY},
	{"scope agent", NULL, LIVE_ANY, LIVE_ANY},
	{"scope shared", NULL, LIVE_ANY, LIVE_ANY},
	{"serve", "mode", LIVE_LESS, LIVE_ANY},
	/* These are the api's own to keep. */
	{"serve", "max_runs", LIVE_ANY, LIVE_ANY},
	{"serve", "max_sandboxes", LIVE_ANY, LIVE_ANY},
	{"serve", "queue", LIVE_ANY, LIVE_ANY},
	{"serve", "queue_per_key", LIVE_ANY, LIVE_ANY},
	{"serve", "wait", LIVE_ANY, LIVE_ANY},
	{"serve", "history_days", LIVE_ANY, LIVE_ANY},
	{"serve", "history_size", LIVE_ANY, LIVE_ANY},
	{"serve", "audit_days", LIVE_ANY, LIVE_ANY},
	{"images", "alias", LIVE_ANY, LIVE_ANY},
	{"language", "prefer", LIVE_ANY, LIVE_ANY},
	{"language", "image", LIVE_ANY, LIVE_ANY},
};

const char *live_rule_name(enum live_rule r)
{
	static const char *const names[] = {
		[LIVE_FILE] = "file", [LIVE_LESS] = "less", [LIVE_ANY] = "any"};

	return names[r];
}

enum live_rule live_rule_of(enum live_mode mode, const char *section, const char *key)
{
	for (const struct live_row *r = rows; r < rows + ARRAY_LEN(rows); r++)
		if (strcmp(r->section, section) == 0 && (!r->key || strcmp(r->key, key) == 0))
			return mode == LIVE_FULL ? r->full : r->narrow;
	return LIVE_FILE;
}

struct checking {
	const struct settings *base, *now;
	struct cay_error *err;
};

static bool is_less(uint64_t now, uint64_t was)
{
	return was == 0 || (now != 0 && now <= was);
}

static bool row_is_less(const struct row *row, const void *now, const void *was)
{
	const char *is = (const char *)now + row->offset, *had = (const char *)was + row->offset;

	if (row->kind == ROW_COUNT || row->kind == ROW_SIZE)
		return is_less(*(const uint64_t *)(const void *)is,
			       *(const uint64_t *)(const void *)had);
	if (row->kind == ROW_BOOL)
		return !*(const bool *)is || *(const bool *)had;
	if (row->kind == ROW_NETWORK)
		return *(const enum network_mode *)(const void *)is <=
		       *(const enum network_mode *)(const void *)had;
	if (row->kind == ROW_ENGINES)
		return (*(const unsigned *)(const void *)is &
			~*(const unsigned *)(const void *)had) == 0;
	if (row->kind == ROW_MOUNTS)
		return *(const enum tier_mounts *)(const void *)is <=
		       *(const enum tier_mounts *)(const void *)had;
	if (row->kind == ROW_MODE)
		return *(const enum mode *)(const void *)is >=
		       *(const enum mode *)(const void *)had;
	return false;
}

/* base: what the keys of the section describe. */
static const struct limits *limits_in(const struct section *sec, const void *base)
{
	return (const struct limits *)(const void *)((const char *)base + sec->limits_offset);
}

static bool key_is_less(const struct section *sec, size_t i, const void *now, const void *was)
{
	const struct limit_row *limit;

	if (i < sec->n_rows)
		return row_is_less(&sec->rows[i], now, was);
	limit = &limit_rows[i - sec->n_rows];
	return is_less(limit_get(limits_in(sec, now), limit),
		       limit_get(limits_in(sec, was), limit));
}

static void keep_value(void *ctx, const char *key _unused_, ssize_t index _unused_,
		       const char *value)
{
	(void)snprintf(ctx, VALUE_SIZE, "%s", value);
}

/* at: where it was said. */
static int check_key(struct checking *c, const struct section *sec, size_t i, const char *at,
		     const void *now, const void *was)
{
	const char *key = section_key(sec, i);
	enum live_rule rule = live_rule_of(c->base->serve_settings, sec->name, key);
	char value[VALUE_SIZE] = "";

	if (rule == LIVE_ANY || (rule == LIVE_LESS && key_is_less(sec, i, now, was)))
		return 0;
	if (rule == LIVE_FILE) {
		(void)cay_fail(c->err, CAY_E_POLICY, 0,
			       "%s: %s in [%s] can't be changed at run time", at, key, sec->name);
		return cay_hint(c->err,
				"write it into a settings file, and start the daemon again");
	}
	if (i < sec->n_rows)
		value_show(was, &sec->rows[i], keep_value, value);
	else
		value_show_limit(limits_in(sec, was), &limit_rows[i - sec->n_rows], keep_value,
				 value);
	(void)cay_fail(c->err, CAY_E_POLICY, 0,
		       "%s: %s in [%s] can only be narrowed at run time: the files say %s", at, key,
		       sec->name, value);
	return cay_hint(c->err, "write it into a settings file, and start the daemon again");
}

/* name: of the section, whole. */
static int check_section(struct checking *c, const struct section *sec, const char *name,
			 const void *now, const void *was)
{
	char full[128];

	for (size_t i = 0; i < section_keys(sec); i++) {
		const char *at;

		(void)snprintf(full, sizeof(full), "%s.%s", name, section_key(sec, i));
		at = settings_origin(c->now, full);
		if (strncmp(at, LIVE_NAME ":", strlen(LIVE_NAME ":")) == 0 &&
		    check_key(c, sec, i, at, now, was) < 0)
			return -1;
	}
	return 0;
}

static int check_languages(struct checking *c, const struct section *sec)
{
	static const struct language_settings none;
	char name[96];

	for (size_t k = 0; k < c->now->n_languages; k++) {
		const struct language_settings *now = &c->now->languages[k];
		const struct language_settings *was = settings_language(c->base, now->name);

		(void)snprintf(name, sizeof(name), "%s %s", sec->name, now->name);
		if (check_section(c, sec, name, now, was ? was : &none) < 0)
			return -1;
	}
	return 0;
}

static int check_tiers(struct checking *c, const struct section *sec)
{
	char name[96];

	for (enum tier t = TIER_SANDBOX; t < TIERS; t++) {
		(void)snprintf(name, sizeof(name), "%s %s", sec->name, tier_name(t));
		if (check_section(c, sec, name, &c->now->tiers[t], &c->base->tiers[t]) < 0)
			return -1;
	}
	return 0;
}

static int check_all(struct checking *c)
{
	int r = 0;

	for (const struct section *sec = sections; sec < sections + n_sections && r == 0; sec++)
		switch (sec->names) {
		case SECTION_ALONE:
			r = check_section(c, sec, sec->name, (const char *)c->now + sec->offset,
					  (const char *)c->base + sec->offset);
			break;
		case SECTION_LANGUAGE:
			r = check_languages(c, sec);
			break;
		case SECTION_TIER:
			r = check_tiers(c, sec);
			break;
		}
	return r;
}

/* Once with line numbers, to judge it, and once to be used. */
static int judge(const struct buf *parts, const struct settings *base, const char *text,
		 struct cay_error *err)
{
	_cleanup_(settings_done) struct settings now;
	struct checking c = {.base = base, .now = &now, .err = err};

	settings_init(&now);
	if (settings_parse_parts(&now, parts, err) < 0 ||
	    settings_parse(&now, LIVE_NAME, text, err) < 0)
		return -1;
	return check_all(&c);
}

int live_lay(const struct buf *parts, const struct settings *base, const char *text,
	     int64_t version, struct settings *ret, struct cay_error *err)
{
	char origin[64];

	settings_init(ret);
	(void)snprintf(origin, sizeof(origin), "run time, version %lld", (long long)version);
	if (judge(parts, base, text, err) < 0 || settings_parse_parts(ret, parts, err) < 0)
		return -1;
	return settings_parse_as(ret, LIVE_NAME, origin, text, err);
}
