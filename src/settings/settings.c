#include "settings/settings.h"

#include "base/attr.h"
#include "base/buf.h"
#include "base/ini.h"
#include "base/parse.h"
#include "base/words.h"
#include "core/limit.h"
#include "spec/language.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_SIZE   128 /* "language NAME.path[123]" */
#define VALUE_SIZE  32
#define VERSION_MAX 31
#define HOST_MAX    253
#define USER_MAX    32

enum kind {
	KIND_BOOL,
	KIND_COUNT,      /* a uint64_t */
	KIND_SIZE,       /* the same, in bytes */
	KIND_VERSION,    /* a char * */
	KIND_PATHS,      /* a struct strv of absolute paths */
	KIND_HOME_PATHS, /* the same, or from "~/" on */
	KIND_HOSTS,      /* a struct strv of host names */
	KIND_MODE,       /* an enum mode */
	KIND_USER,       /* a char *: a user's name or number */
};

struct row {
	const char *key;
	enum kind kind;
	size_t offset; /* in what the section describes */
	uint64_t initial;
	uint64_t max; /* KIND_COUNT, KIND_SIZE */
};

/*
 * The sections and their keys, in the order of the example file. This and
 * limit_rows[] are all there is to know about a key.
 */
struct section {
	const char *name;
	size_t offset;          /* in struct settings, of what the keys describe */
	const struct row *rows; /* NULL: the keys are the limits */
	size_t n_rows;
	bool unlimited; /* limits are 0 until set, and each may be 0 */
	bool named;     /* [section NAME], one struct language_settings for each */
};

static const struct row mount_rows[] = {
	{"read", KIND_HOME_PATHS, offsetof(struct settings, mount_read), 0, 0},
	{"write", KIND_HOME_PATHS, offsetof(struct settings, mount_write), 0, 0},
	{"forbid", KIND_HOME_PATHS, offsetof(struct settings, mount_forbid), 0, 0},
};

static const struct row isolation_rows[] = {
	{"allow_degraded", KIND_BOOL, offsetof(struct settings, allow_degraded), 0, 0},
};

static const struct row engine_rows[] = {
	{"direct", KIND_BOOL, offsetof(struct settings, allow_direct), 1, 0},
};

static const struct row serve_rows[] = {
	{"max_runs", KIND_COUNT, offsetof(struct settings, serve_max_runs), 256, 10000},
	{"max_sandboxes", KIND_COUNT, offsetof(struct settings, serve_max_sandboxes), 100, 10000},
	{"history_days", KIND_COUNT, offsetof(struct settings, serve_history_days), 30, 3650},
	{"history_size", KIND_SIZE, offsetof(struct settings, serve_history_size), 1ull << 30,
	 1ull << 44},
	{"audit_days", KIND_COUNT, offsetof(struct settings, serve_audit_days), 90, 3650},
	{"host", KIND_HOSTS, offsetof(struct settings, serve_hosts), 0, 0},
	{"mode", KIND_MODE, offsetof(struct settings, serve_mode), MODE_ALL, 0},
	{"direct_user", KIND_USER, offsetof(struct settings, serve_direct_user), 0, 0},
	{"direct_over_tcp", KIND_BOOL, offsetof(struct settings, serve_direct_over_tcp), 0, 0},
};

static const struct row language_rows[] = {
	{"prefer", KIND_VERSION, offsetof(struct language_settings, prefer), 0, 0},
	{"path", KIND_PATHS, offsetof(struct language_settings, paths), 0, 0},
};

static const struct section sections[] = {
	{.name = "limits", .offset = offsetof(struct settings, limits)},
	{.name = "maximum", .offset = offsetof(struct settings, maximum), .unlimited = true},
	{.name = "mounts", .rows = mount_rows, .n_rows = ARRAY_LEN(mount_rows)},
	{.name = "isolation", .rows = isolation_rows, .n_rows = ARRAY_LEN(isolation_rows)},
	{.name = "engine", .rows = engine_rows, .n_rows = ARRAY_LEN(engine_rows)},
	{.name = "serve", .rows = serve_rows, .n_rows = ARRAY_LEN(serve_rows)},
	{.name = "language",
	 .rows = language_rows,
	 .n_rows = ARRAY_LEN(language_rows),
	 .named = true},
};

static size_t n_keys(const struct section *sec)
{
	return sec->rows ? sec->n_rows : n_limit_rows;
}

static const char *key_name(const struct section *sec, size_t i)
{
	return sec->rows ? sec->rows[i].key : limit_rows[i].name;
}

static struct limits *limits_of(struct settings *s, const struct section *sec)
{
	return (struct limits *)(void *)((char *)s + sec->offset);
}

static bool may_be_zero(const struct section *sec, const struct limit_row *limit)
{
	return sec->unlimited || limit->initial == 0;
}

static void init_section(struct settings *s, const struct section *sec)
{
	for (size_t i = 0; i < n_keys(sec); i++) {
		const struct row *row = sec->rows ? &sec->rows[i] : NULL;

		if (!row)
			limit_set(limits_of(s, sec), &limit_rows[i],
				  sec->unlimited ? 0 : limit_rows[i].initial);
		else if (row->kind == KIND_BOOL)
			*(bool *)((char *)s + row->offset) = row->initial != 0;
		else if (row->kind == KIND_COUNT || row->kind == KIND_SIZE)
			*(uint64_t *)(void *)((char *)s + row->offset) = row->initial;
		else if (row->kind == KIND_MODE)
			*(enum mode *)(void *)((char *)s + row->offset) = (enum mode)row->initial;
	}
}

void settings_init(struct settings *s)
{
	*s = (struct settings){0};
	for (size_t i = 0; i < ARRAY_LEN(sections); i++)
		if (!sections[i].named)
			init_section(s, &sections[i]);
}

void settings_done(struct settings *s)
{
	strv_done(&s->mount_read);
	strv_done(&s->mount_write);
	strv_done(&s->mount_forbid);
	strv_done(&s->serve_hosts);
	free(s->serve_direct_user);
	for (size_t i = 0; i < s->n_languages; i++) {
		free(s->languages[i].name);
		free(s->languages[i].prefer);
		strv_done(&s->languages[i].paths);
	}
	strv_done(&s->origins);
	*s = (struct settings){0};
}

const struct language_settings *settings_language(const struct settings *s, const char *name)
{
	for (size_t i = 0; i < s->n_languages; i++)
		if (strcmp(s->languages[i].name, name) == 0)
			return &s->languages[i];
	return NULL;
}

/* A list of the words that are known in some place, and the one that was probably meant. */
struct known {
	struct guess guess;
	struct buf list;
};

static void known_add(struct known *k, const char *name)
{
	(void)buf_printf(&k->list, "%s%s", k->list.len > 0 ? ", " : "", name);
	guess_offer(&k->guess, name);
}

/* Adds the hint, frees the list and returns -1. */
static int known_hint(struct known *k, const char *what, struct cay_error *err)
{
	if (k->guess.meant)
		(void)cay_hint(err, "did you mean '%s'? %s: %s", k->guess.meant, what,
			       buf_str(&k->list));
	else
		(void)cay_hint(err, "%s: %s", what, buf_str(&k->list));
	buf_done(&k->list);
	return -1;
}

#define KNOWN(written) ((struct known){.guess = GUESS(written), .list = BUF(sizeof(err->hint))})

static int unknown_section(const char *name, struct cay_error *err)
{
	struct known k = KNOWN(name);

	for (size_t i = 0; i < ARRAY_LEN(sections); i++)
		known_add(&k, sections[i].name);
	if (!*name)
		(void)cay_fail(err, CAY_E_INVALID, 0, "a key before the first [section]");
	else
		(void)cay_fail(err, CAY_E_INVALID, 0, "unknown section [%s]", name);
	return known_hint(&k, "sections are", err);
}

static int unknown_key(const struct section *sec, const struct cay_ini_item *item,
		       struct cay_error *err)
{
	struct known k = KNOWN(item->key);

	for (size_t i = 0; i < n_keys(sec); i++)
		known_add(&k, key_name(sec, i));
	(void)cay_fail(err, CAY_E_INVALID, 0, "unknown key '%s' in [%s]", item->key, item->section);
	return known_hint(&k, "keys there are", err);
}

static int unknown_language(const char *name, struct cay_error *err)
{
	struct known k = KNOWN(name);

	for (size_t i = 0; i < n_languages; i++)
		known_add(&k, languages[i].name);
	if (!*name)
		(void)cay_fail(err, CAY_E_INVALID, 0, "a language section needs a name");
	else
		(void)cay_fail(err, CAY_E_INVALID, 0, "unknown language '%s'", name);
	return known_hint(&k, "languages are", err);
}

static int keep_failed(int r, struct cay_error *err)
{
	return cay_fail(err, CAY_E_INTERNAL, -r, "keep the settings");
}

/* *ret_name is what follows in [language NAME], and "" in other sections. */
static const struct section *find_section(const char *text, const char **ret_name)
{
	for (size_t i = 0; i < ARRAY_LEN(sections); i++) {
		size_t n = strlen(sections[i].name);

		if (strncmp(text, sections[i].name, n) != 0)
			continue;
		*ret_name = text + n;
		if (sections[i].named)
			*ret_name += strspn(*ret_name, " \t");
		/* "languagepython" is none of ours, "language" lacks its name. */
		if (!text[n] || (sections[i].named && *ret_name > text + n))
			return &sections[i];
	}
	return NULL;
}

/* The settings of the language, made if it has none yet. An alias means the language. */
static int need_language(struct settings *s, const char *name, struct language_settings **ret,
			 struct cay_error *err)
{
	const struct language *language = language_find(name);

	if (!language) {
		(void)unknown_language(name, err);
		return -1;
	}
	for (size_t i = 0; i < s->n_languages; i++)
		if (strcmp(s->languages[i].name, language->name) == 0) {
			*ret = &s->languages[i];
			return 0;
		}
	if (s->n_languages == SETTINGS_LANGUAGES_MAX)
		return cay_fail(err, CAY_E_INVALID, 0, "more than %d languages",
				SETTINGS_LANGUAGES_MAX);
	*ret = &s->languages[s->n_languages];
	(*ret)->name = strdup(language->name);
	if (!(*ret)->name)
		return keep_failed(-ENOMEM, err);
	s->n_languages++;
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

		if ((n == 0 && path[1]) || (n == 1 && path[0] == '.') ||
		    (n == 2 && strncmp(path, "..", 2) == 0))
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
	char *copy;

	if (n == 0 || n > VERSION_MAX || text[n] || text[0] == '.' || text[n - 1] == '.' ||
	    strstr(text, ".."))
		return cay_fail(err, CAY_E_INVALID, 0,
				"%s can't be '%s': expected a version such as 3.12", key, text);
	copy = strdup(text);
	if (!copy)
		return keep_failed(-ENOMEM, err);
	free(*value);
	*value = copy;
	return 0;
}

static int add_path(struct strv *list, const struct row *row, const char *text,
		    struct cay_error *err)
{
	bool home = row->kind == KIND_HOME_PATHS;
	int r;

	if (text[0] != '/' && !(home && strncmp(text, "~/", 2) == 0))
		return cay_fail(err, CAY_E_INVALID, 0,
				"%s can't be '%s': expected an absolute path%s", row->key, text,
				home ? ", or one that begins with ~/" : "");
	if (!is_clean_path(strchr(text, '/') + 1))
		return cay_fail(err, CAY_E_INVALID, 0,
				"%s can't be '%s': expected a path without '..', '.' and '//'",
				row->key, text);
	r = strv_add(list, text);
	return r < 0 ? keep_failed(r, err) : 0;
}

static int set_number(uint64_t *value, const struct row *row, const char *text,
		      struct cay_error *err)
{
	bool size = row->kind == KIND_SIZE;
	uint64_t v;

	if ((size ? parse_size(text, 0, row->max, &v) : parse_u64(text, 0, row->max, &v)) < 0)
		return cay_fail(err, CAY_E_INVALID, 0,
				"%s can't be '%s': expected a %s from 0 to %llu", row->key, text,
				size ? "size such as 512m," : "number",
				(unsigned long long)row->max);
	*value = v;
	return 0;
}

/* As in a Host header, in small letters; no port, no pattern. */
static int add_host(struct strv *list, const struct row *row, const char *text,
		    struct cay_error *err)
{
	size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789.-");
	int r;

	if (n == 0 || n > HOST_MAX || text[n])
		return cay_fail(err, CAY_E_INVALID, 0,
				"%s can't be '%s': expected a host name in small letters", row->key,
				text);
	r = strv_add(list, text);
	return r < 0 ? keep_failed(r, err) : 0;
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

/* Whether there is such a user is found out by whoever needs one. */
static int set_user(char **value, const char *key, const char *text, struct cay_error *err)
{
	size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789._-"
				"ABCDEFGHIJKLMNOPQRSTUVWXYZ");
	char *copy;

	if (n == 0 || n > USER_MAX || text[n] || text[0] == '-')
		return cay_fail(err, CAY_E_INVALID, 0,
				"%s can't be '%s': expected a user's name or number", key, text);
	if (strcmp(text, "root") == 0 || strspn(text, "0") == n)
		return cay_fail(err, CAY_E_INVALID, 0,
				"%s can't be '%s': nothing runs as root without a sandbox", key,
				text);
	copy = strdup(text);
	if (!copy)
		return keep_failed(-ENOMEM, err);
	free(*value);
	*value = copy;
	return 0;
}

static int set_limit(struct settings *s, const struct section *sec, const struct limit_row *limit,
		     const char *text, struct cay_error *err)
{
	struct limits *limits = limits_of(s, sec);
	bool zero = may_be_zero(sec, limit);

	if (zero && strcmp(text, "0") == 0) {
		limit_set(limits, limit, 0);
		return 0;
	}
	if (limit_parse(limits, limit->name, text, err) < 0)
		return zero ? cay_hint(err, "0 means: not limited") : -1;
	return 0;
}

/* Where a file's lines land. */
struct target {
	struct settings *s;
	const char *file;
	int line;
	struct cay_error *err;
};

/* "limits.memory", or for an item of a list "mounts.read[0]"; index is -1 for the key itself. */
static void origin_name(char *name, const char *section, const char *key, ssize_t index)
{
	if (index < 0)
		(void)snprintf(name, NAME_SIZE, "%s.%s", section, key);
	else
		(void)snprintf(name, NAME_SIZE, "%s.%s[%zd]", section, key, index);
}

static int keep_origin(struct target *t, const char *section, const char *key, ssize_t index)
{
	char name[NAME_SIZE], place[PATH_MAX + 16];
	int r;

	(void)snprintf(place, sizeof(place), "%s:%d", t->file, t->line);
	origin_name(name, section, key, -1);
	r = strv_set_env(&t->s->origins, name, place);
	if (r == 0 && index >= 0) {
		origin_name(name, section, key, index);
		r = strv_set_env(&t->s->origins, name, place);
	}
	return r < 0 ? keep_failed(r, t->err) : 0;
}

static int set_row(struct target *t, void *base, const struct row *row, const char *section,
		   const char *text)
{
	void *field = (char *)base + row->offset;
	struct strv *list = field;
	ssize_t index = -1;
	int r = -1;

	switch (row->kind) {
	case KIND_BOOL:
		r = set_bool(field, row->key, text, t->err);
		break;
	case KIND_COUNT:
	case KIND_SIZE:
		r = set_number(field, row, text, t->err);
		break;
	case KIND_VERSION:
		r = set_version(field, row->key, text, t->err);
		break;
	case KIND_PATHS:
	case KIND_HOME_PATHS:
		index = (ssize_t)list->len;
		r = add_path(list, row, text, t->err);
		break;
	case KIND_HOSTS:
		index = (ssize_t)list->len;
		r = add_host(list, row, text, t->err);
		break;
	case KIND_MODE:
		r = set_mode(field, row->key, text, t->err);
		break;
	case KIND_USER:
		r = set_user(field, row->key, text, t->err);
		break;
	}
	return r < 0 ? -1 : keep_origin(t, section, row->key, index);
}

static int set_key(struct target *t, const struct section *sec, const struct cay_ini_item *item,
		   void *base, const char *section)
{
	for (size_t i = 0; i < n_keys(sec); i++) {
		if (strcmp(key_name(sec, i), item->key) != 0)
			continue;
		if (sec->rows)
			return set_row(t, base, &sec->rows[i], section, item->value);
		if (set_limit(t->s, sec, &limit_rows[i], item->value, t->err) < 0)
			return -1;
		return keep_origin(t, section, item->key, -1);
	}
	return unknown_key(sec, item, t->err);
}

static int take_item(void *ctx, const struct cay_ini_item *item)
{
	struct target *t = ctx;
	struct language_settings *language = NULL;
	char section[NAME_SIZE / 2];
	const char *name;
	const struct section *sec = find_section(item->section, &name);

	t->line = item->line;
	if (!sec)
		return unknown_section(item->section, t->err);
	if (!sec->named)
		return item->key ? set_key(t, sec, item, t->s, sec->name) : 0;
	if (need_language(t->s, name, &language, t->err) < 0)
		return -1;
	(void)snprintf(section, sizeof(section), "%s %s", sec->name, language->name);
	return item->key ? set_key(t, sec, item, language, section) : 0;
}

int settings_parse(struct settings *s, const char *file, const char *text, struct cay_error *err)
{
	struct target t = {.s = s, .file = file, .err = err};
	const char *why;
	int line = ini_each(text, take_item, &t, &why);

	if (line == 0)
		return 0;
	if (line < 0)
		return keep_failed(line, err);
	if (why)
		return cay_fail(err, CAY_E_INVALID, 0, "%s:%d: %s", file, line, why);
	return cay_wrap(err, "%s:%d", file, line);
}

const char *settings_origin(const struct settings *s, const char *name)
{
	const char *place = strv_get_env(&s->origins, name);

	return place ? place : "default";
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

static void write_limit(const struct limit_row *limit, uint64_t v, char *text)
{
	unsigned long long n = v;

	switch (limit->unit) {
	case LIMIT_BYTES:
		write_size(n, text);
		break;
	case LIMIT_TIME:
		if (n % 1000 == 0)
			(void)snprintf(text, VALUE_SIZE, "%llu%s", n / 1000, n > 0 ? "s" : "");
		else
			(void)snprintf(text, VALUE_SIZE, "%llums", n);
		break;
	case LIMIT_MILLI:
		write_milli(n, text);
		break;
	case LIMIT_COUNT:
		(void)snprintf(text, VALUE_SIZE, "%llu", n);
		break;
	}
}

struct show {
	const struct settings *s;
	const char *section;
	settings_show_fn *fn;
	void *ctx;
};

static void show_value(const struct show *show, const char *key, ssize_t index, const char *value)
{
	char name[NAME_SIZE];

	origin_name(name, show->section, key, index);
	show->fn(show->ctx, show->section, key, value, settings_origin(show->s, name));
}

static void show_row(const struct show *show, const void *base, const struct row *row)
{
	const void *field = (const char *)base + row->offset;
	const struct strv *list = field;
	char number[VALUE_SIZE];

	switch (row->kind) {
	case KIND_BOOL:
		show_value(show, row->key, -1, *(const bool *)field ? "yes" : "no");
		break;
	case KIND_COUNT:
		(void)snprintf(number, sizeof(number), "%llu",
			       (unsigned long long)*(const uint64_t *)field);
		show_value(show, row->key, -1, number);
		break;
	case KIND_SIZE:
		write_size(*(const uint64_t *)field, number);
		show_value(show, row->key, -1, number);
		break;
	case KIND_MODE:
		show_value(show, row->key, -1, mode_name(*(const enum mode *)field));
		break;
	case KIND_VERSION:
	case KIND_USER:
		if (*(char *const *)field)
			show_value(show, row->key, -1, *(char *const *)field);
		break;
	case KIND_PATHS:
	case KIND_HOME_PATHS:
	case KIND_HOSTS:
		for (size_t i = 0; i < list->len; i++)
			show_value(show, row->key, (ssize_t)i, list->items[i]);
		break;
	}
}

static void show_section(const struct show *show, const struct section *sec, const void *base)
{
	for (size_t i = 0; i < n_keys(sec); i++) {
		const struct limits *limits = base;
		char value[VALUE_SIZE];

		if (sec->rows) {
			show_row(show, base, &sec->rows[i]);
			continue;
		}
		write_limit(&limit_rows[i], limit_get(limits, &limit_rows[i]), value);
		show_value(show, limit_rows[i].name, -1, value);
	}
}

static void show_languages(const struct show *show, const struct section *sec)
{
	for (size_t i = 0; i < show->s->n_languages; i++) {
		const struct language_settings *language = &show->s->languages[i];
		struct show one = *show;
		char name[NAME_SIZE / 2];

		(void)snprintf(name, sizeof(name), "%s %s", sec->name, language->name);
		one.section = name;
		show_section(&one, sec, language);
	}
}

void settings_show(const struct settings *s, settings_show_fn *fn, void *ctx)
{
	struct show show = {.s = s, .fn = fn, .ctx = ctx};

	for (size_t i = 0; i < ARRAY_LEN(sections); i++) {
		show.section = sections[i].name;
		if (sections[i].named)
			show_languages(&show, &sections[i]);
		else
			show_section(&show, &sections[i], (const char *)s + sections[i].offset);
	}
}
