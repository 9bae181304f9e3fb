#include "spec/risk.h"

#include "base/attr.h"
#include "base/buf.h"
#include "base/words.h"

#include <stdio.h>
#include <string.h>

enum risk_value { VALUE_NONE, VALUE_MAY, VALUE_MUST };

bool spec_is_shell(const struct spec *s)
{
	static const char *const shells[] = {"sh", "bash", "zsh"};
	const char *name = s->language ? s->language->name : NULL;

	if (s->kind == SPEC_ARGV && s->args.len > 0) {
		const char *slash = strrchr(s->args.items[0], '/');

		name = slash ? slash + 1 : s->args.items[0];
	}
	for (size_t i = 0; name && i < ARRAY_LEN(shells); i++)
		if (strcmp(name, shells[i]) == 0)
			return true;
	return false;
}

static bool is_shell(const struct risk_facts *f, const char *value _unused_)
{
	return spec_is_shell(f->spec);
}

static bool is_argv(const struct risk_facts *f, const char *value _unused_)
{
	return f->spec->kind == SPEC_ARGV;
}

static bool has_language(const struct risk_facts *f, const char *value)
{
	return f->spec->language && strcmp(f->spec->language->name, value) == 0;
}

static bool has_network(const struct risk_facts *f, const char *value)
{
	if (!value)
		return f->network > NETWORK_NONE;
	return strcmp(network_mode_name(f->network), value) == 0;
}

static bool has_mounts(const struct risk_facts *f, const char *value)
{
	const struct spec *s = f->spec;
	bool any = s->n_mounts > 0 || s->workspace.source;
	bool writes = s->workspace.source && s->workspace.access == ACCESS_WRITE;

	for (size_t i = 0; i < s->n_mounts; i++)
		writes |= s->mounts[i].access == ACCESS_WRITE;
	return value ? writes : any;
}

static bool has_image(const struct risk_facts *f, const char *value _unused_)
{
	return f->spec->image && strcmp(f->spec->image, IMAGE_HOST) != 0;
}

static bool has_tier(const struct risk_facts *f, const char *value)
{
	return f->tier && strcmp(f->tier, value) == 0;
}

static bool has_key(const struct risk_facts *f, const char *value)
{
	if (!value)
		return f->key_id != NULL;
	return f->key_id && (strcmp(f->key, value) == 0 || strcmp(f->key_id, value) == 0);
}

static bool has_label(const struct risk_facts *f, const char *value)
{
	size_t n = strlen(value);

	for (size_t i = 0; f->labels && i < f->labels->len; i++) {
		const char *label = f->labels->items[i];

		if (strcmp(label, value) == 0 ||
		    (!strchr(value, '=') && strncmp(label, value, n) == 0 && label[n] == '='))
			return true;
	}
	return false;
}

static bool is_language(const char *value, const char **ret)
{
	const struct language *l = language_find(value);

	*ret = l ? l->name : NULL;
	return l != NULL;
}

static bool is_network(const char *value, const char **ret _unused_)
{
	return network_mode_find(value) < NETWORK_MODES;
}

static bool is_write(const char *value, const char **ret _unused_)
{
	return strcmp(value, access_name(ACCESS_WRITE)) == 0;
}

static bool is_tier(const char *value, const char **ret _unused_)
{
	return tier_find(value) < TIERS;
}

static bool is_word(const char *value, const char **ret _unused_)
{
	for (const char *p = value; *p; p++)
		if ((unsigned char)*p <= ' ' || *p == 0x7f)
			return false;
	return *value != '=' && *value;
}

static const struct risk_row {
	const char *name;
	enum risk_value value;
	/* Whether it can be one; *ret: how it is written, where that is otherwise. */
	bool (*ok)(const char *value, const char **ret);
	bool (*matches)(const struct risk_facts *f, const char *value);
} rows[] = {
	{"shell", VALUE_NONE, NULL, is_shell},
	{"argv", VALUE_NONE, NULL, is_argv},
	{"language", VALUE_MUST, is_language, has_language},
	{"network", VALUE_MAY, is_network, has_network},
	{"mounts", VALUE_MAY, is_write, has_mounts},
	{"image", VALUE_NONE, NULL, has_image},
	{"tier", VALUE_MUST, is_tier, has_tier},
	{"key", VALUE_MAY, is_word, has_key},
	{"label", VALUE_MUST, is_word, has_label},
};

/* *ret_value: what follows the colon, or NULL. */
static const struct risk_row *find(const char *text, const char **ret_value)
{
	size_t n = strcspn(text, ":");

	*ret_value = text[n] ? text + n + 1 : NULL;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (strlen(rows[i].name) == n && strncmp(rows[i].name, text, n) == 0)
			return &rows[i];
	return NULL;
}

static int unknown(const char *text, struct cay_error *err)
{
	_cleanup_(buf_done) struct buf list = BUF(sizeof(err->hint));
	struct guess guess = GUESS(text);

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		(void)buf_printf(&list, "%s%s", i > 0 ? ", " : "", rows[i].name);
		guess_offer(&guess, rows[i].name);
	}
	(void)cay_fail(err, CAY_E_INVALID, 0, "'%.64s' is no rule for mode selective", text);
	if (guess.meant)
		return cay_hint(err, "did you mean '%s'? rules are: %s", guess.meant,
				buf_str(&list));
	return cay_hint(err, "rules are: %s", buf_str(&list));
}

int risk_parse(const char *text, char normal[RISK_SIZE], struct cay_error *err)
{
	const char *value, *written = NULL;
	const struct risk_row *row = find(text, &value);

	if (!row)
		return unknown(text, err);
	if (strlen(text) >= RISK_SIZE)
		return cay_fail(err, CAY_E_INVALID, 0, "the rule '%.64s…' is too long", text);
	if (value ? row->value == VALUE_NONE : row->value == VALUE_MUST)
		return cay_fail(err, CAY_E_INVALID, 0, "the rule %s %s", row->name,
				value ? "takes no value" : "needs a value, as in language:bash");
	if (value && !row->ok(value, &written))
		return cay_fail(err, CAY_E_INVALID, 0, "the rule %s can't have the value '%.64s'",
				row->name, value);
	if (value)
		(void)snprintf(normal, RISK_SIZE, "%s:%s", row->name, written ? written : value);
	else
		(void)snprintf(normal, RISK_SIZE, "%s", row->name);
	return 0;
}

bool risk_matches(const char *rule, const struct risk_facts *f)
{
	const char *value;
	const struct risk_row *row = find(rule, &value);

	return row && row->matches(f, value);
}
