#include "settings/settings.h"

#include "base/attr.h"
#include "base/buf.h"
#include "base/ini.h"
#include "base/words.h"
#include "core/limit.h"
#include "settings/rows.h"
#include "settings/value.h"
#include "spec/language.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_SIZE    128 /* "language NAME.path[123]" */
#define SECTION_SIZE (NAME_SIZE / 2)

/* base: what the keys of the section describe. */
static struct limits *limits_of(void *base, const struct section *sec)
{
	return (struct limits *)(void *)((char *)base + sec->limits_offset);
}

static bool may_be_zero(const struct section *sec, const struct limit_row *limit)
{
	return sec->unlimited || limit->initial == 0;
}

static void init_section(struct settings *s, const struct section *sec)
{
	void *base = (char *)s + sec->offset;

	for (size_t i = 0; i < sec->n_rows; i++)
		value_init(base, &sec->rows[i]);
	for (size_t i = 0; sec->has_limits && i < n_limit_rows; i++)
		limit_set(limits_of(base, sec), &limit_rows[i],
			  sec->unlimited ? 0 : limit_rows[i].initial);
}

void settings_init(struct settings *s)
{
	*s = (struct settings){
		.tiers =
			{
				[TIER_SANDBOX] =
					{NETWORK_NONE, ENGINES_SANDBOXED, TIER_MOUNTS_NONE, {0}},
				[TIER_RESTRICTED] =
					{NETWORK_NONE, ENGINES_SANDBOXED, TIER_MOUNTS_READ, {0}},
				[TIER_STANDARD] = {NETWORK_ALLOWLIST,
						   ENGINES_SANDBOXED,
						   TIER_MOUNTS_READ,
						   {0}},
				[TIER_ELEVATED] =
					{NETWORK_FULL, ENGINES_SANDBOXED, TIER_MOUNTS_WRITE, {0}},
				[TIER_UNRESTRICTED] =
					{NETWORK_FULL, ENGINES_ALL, TIER_MOUNTS_WRITE, {0}},
			},
	};
	for (size_t i = 0; i < n_sections; i++)
		if (sections[i].names == SECTION_ALONE)
			init_section(s, &sections[i]);
}

void settings_done(struct settings *s)
{
	strv_done(&s->mount_read);
	strv_done(&s->mount_write);
	strv_done(&s->mount_forbid);
	strv_done(&s->network_allow);
	strv_done(&s->network_block);
	strv_done(&s->network_addresses);
	strv_done(&s->risks);
	for (int k = 0; k < SCOPES; k++) {
		free(s->scopes[k].workspace);
		free(s->scopes[k].image);
		strv_done(&s->scopes[k].allow);
	}
	strv_done(&s->serve_hosts);
	free(s->serve_direct_user);
	free(s->docker.socket);
	free(s->docker.runtime);
	free(s->podman.socket);
	free(s->podman.runtime);
	free(s->images_store);
	strv_done(&s->images_allow);
	strv_done(&s->warm_images);
	strv_done(&s->warm_sets);
	strv_done(&s->images_aliases);
	strv_done(&s->images_mirrors);
	strv_done(&s->images_plain_http);
	for (size_t i = 0; i < s->n_languages; i++) {
		free(s->languages[i].name);
		free(s->languages[i].prefer);
		strv_done(&s->languages[i].paths);
		strv_done(&s->languages[i].images);
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

	for (size_t i = 0; i < n_sections; i++)
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

	for (size_t i = 0; i < section_keys(sec); i++)
		known_add(&k, section_key(sec, i));
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

static int unknown_tier(const char *name, struct cay_error *err)
{
	struct known k = KNOWN(name);

	for (enum tier t = TIER_SANDBOX; t < TIERS; t++)
		known_add(&k, tier_name(t));
	if (!*name)
		(void)cay_fail(err, CAY_E_INVALID, 0, "a tier section needs a name");
	else
		(void)cay_fail(err, CAY_E_INVALID, 0, "unknown tier '%s'", name);
	return known_hint(&k, "tiers are", err);
}

static int keep_failed(int r, struct cay_error *err)
{
	return cay_fail(err, CAY_E_INTERNAL, -r, "keep the settings");
}

/* *ret_name is what follows in [language NAME], and "" in other sections. */
static const struct section *find_section(const char *text, const char **ret_name)
{
	for (size_t i = 0; i < n_sections; i++) {
		size_t n = strlen(sections[i].name);
		bool named = sections[i].names != SECTION_ALONE;

		if (strncmp(text, sections[i].name, n) != 0)
			continue;
		*ret_name = text + n;
		if (named)
			*ret_name += strspn(*ret_name, " \t");
		/* "languagepython" is none of ours, "language" lacks its name. */
		if (!text[n] || (named && *ret_name > text + n))
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

/* Where a file's lines land. */
struct target {
	struct settings *s;
	const char *file;
	const char *origin; /* of all of it; NULL: file and line */
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

	if (t->origin)
		(void)snprintf(place, sizeof(place), "%s", t->origin);
	else
		(void)snprintf(place, sizeof(place), "%s:%d", t->file, t->line);
	origin_name(name, section, key, -1);
	r = strv_set_env(&t->s->origins, name, place);
	if (r == 0 && index >= 0) {
		origin_name(name, section, key, index);
		r = strv_set_env(&t->s->origins, name, place);
	}
	return r < 0 ? keep_failed(r, t->err) : 0;
}

static int set_value(struct target *t, const struct section *sec, size_t i, const char *value,
		     void *base, ssize_t *ret_index)
{
	const struct limit_row *limit;

	if (i < sec->n_rows)
		return value_set(base, &sec->rows[i], value, ret_index, t->err);
	limit = &limit_rows[i - sec->n_rows];
	return value_set_limit(limits_of(base, sec), limit, may_be_zero(sec, limit), value, t->err);
}

static int set_key(struct target *t, const struct section *sec, const struct cay_ini_item *item,
		   void *base, const char *section)
{
	ssize_t index = -1;

	for (size_t i = 0; i < section_keys(sec); i++) {
		if (strcmp(section_key(sec, i), item->key) != 0)
			continue;
		if (set_value(t, sec, i, item->value, base, &index) < 0)
			return -1;
		return keep_origin(t, section, item->key, index);
	}
	return unknown_key(sec, item, t->err);
}

/* What the keys of a section describe, and that section as the program calls it. */
static int find_base(struct target *t, const struct section *sec, const char *name, void **ret_base,
		     const char **ret_name)
{
	struct language_settings *language = NULL;
	enum tier tier;

	switch (sec->names) {
	case SECTION_ALONE:
		*ret_base = (char *)t->s + sec->offset;
		return 0;
	case SECTION_LANGUAGE:
		if (need_language(t->s, name, &language, t->err) < 0)
			return -1;
		*ret_base = language;
		*ret_name = language->name;
		return 0;
	case SECTION_TIER:
		tier = tier_find(name);
		if (tier == TIERS)
			return unknown_tier(name, t->err);
		*ret_base = &t->s->tiers[tier];
		*ret_name = tier_name(tier);
		return 0;
	}
	return -1;
}

/* "limits", "language python". */
static void section_text(char ret[SECTION_SIZE], const struct section *sec, const char *name)
{
	(void)snprintf(ret, SECTION_SIZE, "%s%s%s", sec->name, *name ? " " : "", name);
}

static int take_item(void *ctx, const struct cay_ini_item *item)
{
	struct target *t = ctx;
	char section[SECTION_SIZE];
	const char *name;
	const struct section *sec = find_section(item->section, &name);
	void *base = NULL;

	t->line = item->line;
	if (!sec)
		return unknown_section(item->section, t->err);
	if (find_base(t, sec, name, &base, &name) < 0)
		return -1;
	section_text(section, sec, name);
	return item->key ? set_key(t, sec, item, base, section) : 0;
}

int settings_parse(struct settings *s, const char *file, const char *text, struct cay_error *err)
{
	return settings_parse_as(s, file, NULL, text, err);
}

int settings_parse_as(struct settings *s, const char *file, const char *origin, const char *text,
		      struct cay_error *err)
{
	struct target t = {.s = s, .file = file, .origin = origin, .err = err};
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

struct show {
	const struct settings *s;
	char section[SECTION_SIZE];
	settings_show_fn *fn;
	void *ctx;
};

static void show_value(void *ctx, const char *key, ssize_t index, const char *value)
{
	const struct show *show = ctx;
	char name[NAME_SIZE];

	origin_name(name, show->section, key, index);
	show->fn(show->ctx, show->section, key, value, settings_origin(show->s, name));
}

static void show_section(struct show *show, const struct section *sec, const char *name,
			 const void *base)
{
	const char *limits = (const char *)base + sec->limits_offset;

	section_text(show->section, sec, name);
	for (size_t i = 0; i < sec->n_rows; i++)
		value_show(base, &sec->rows[i], show_value, show);
	for (size_t i = 0; sec->has_limits && i < n_limit_rows; i++)
		value_show_limit((const struct limits *)(const void *)limits, &limit_rows[i],
				 show_value, show);
}

void settings_show(const struct settings *s, settings_show_fn *fn, void *ctx)
{
	struct show show = {.s = s, .fn = fn, .ctx = ctx};

	for (size_t i = 0; i < n_sections; i++) {
		const struct section *sec = &sections[i];

		switch (sec->names) {
		case SECTION_ALONE:
			show_section(&show, sec, "", (const char *)s + sec->offset);
			break;
		case SECTION_LANGUAGE:
			for (size_t k = 0; k < s->n_languages; k++)
				show_section(&show, sec, s->languages[k].name, &s->languages[k]);
			break;
		case SECTION_TIER:
			for (enum tier t = TIER_SANDBOX; t < TIERS; t++)
				show_section(&show, sec, tier_name(t), &s->tiers[t]);
			break;
		}
	}
}
