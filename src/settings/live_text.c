#include "settings/live.h"

#include "base/attr.h"
#include "base/ini.h"

#include <errno.h>
#include <string.h>

/* What a text says, in its order: "limits.memory" and its value. */
struct said {
	struct strv names, values;
};

static void said_done(struct said *s)
{
	strv_done(&s->names);
	strv_done(&s->values);
}

static int add(struct said *s, const char *name, const char *value)
{
	int r = strv_add(&s->names, name);

	return r < 0 ? r : strv_add(&s->values, value);
}

static int take_item(void *ctx, const struct cay_ini_item *item)
{
	struct said *s = ctx;

	if (!item->key)
		return 0;
	/* What the last dot is between has to be told from what it is in. */
	if (!item->section[0] || strchr(item->key, '.'))
		return -1;
	return strv_addf(&s->names, "%s.%s", item->section, item->key) < 0
		       ? -1
		       : strv_add(&s->values, item->value);
}

static int no_memory(struct cay_error *err)
{
	return cay_fail(err, CAY_E_INTERNAL, ENOMEM, "read the settings");
}

static int read_text(const char *text, struct said *ret, struct cay_error *err)
{
	const char *why = NULL;
	int line = ini_each(text, take_item, ret, &why);

	if (line == 0)
		return 0;
	if (line < 0)
		return no_memory(err);
	return cay_fail(err, CAY_E_INVALID, 0, LIVE_NAME ":%d: %s", line,
			why ? why : "no section has such a key");
}

static size_t section_length(const char *name)
{
	const char *dot = strrchr(name, '.');

	return dot ? (size_t)(dot - name) : 0;
}

static int check_edit(const char *name, const struct strv *values, struct cay_error *err)
{
	const size_t n = section_length(name);

	if (n == 0 || !name[n + 1] || strpbrk(name, "[]=:\r\n#;")) {
		(void)cay_fail(err, CAY_E_INVALID, 0, "'%.64s' is no key", name);
		return cay_hint(err,
				"SECTION.KEY, as in limits.memory, or \"language python.prefer\"");
	}
	for (size_t i = 0; i < values->len; i++)
		if (strpbrk(values->items[i], "\r\n"))
			return cay_fail(err, CAY_E_INVALID, 0, "%s: the value has more than a line",
					name);
	return 0;
}

/* A line that only just fits stays one, and what begins as a comment would is a value. */
static int write_line(struct buf *ret, const char *key, const char *value)
{
	bool apart = strlen(key) + strlen(" = ") + strlen(value) <= INI_LINE_MAX &&
		     value[0] != '#' && value[0] != ';';

	return buf_printf(ret, "%s%s%s\n", key, apart ? " = " : "=", value);
}

static int write_text(const struct said *s, struct buf *ret)
{
	const char *section = "";
	size_t len = 0;
	int r = 0;

	for (size_t i = 0; i < s->names.len && r == 0; i++) {
		const char *name = s->names.items[i];
		size_t n = section_length(name);

		if (n != len || strncmp(name, section, n) != 0)
			r = buf_printf(ret, "[%.*s]\n", (int)n, name);
		section = name;
		len = n;
		if (r == 0)
			r = write_line(ret, name + n + 1, s->values.items[i]);
	}
	return r;
}

static bool is_in(const char *name, const char *of)
{
	size_t n = section_length(of);

	return section_length(name) == n && strncmp(name, of, n) == 0;
}

/* Behind the last of its section, so that that stays one. */
static int insert(struct said *to, const struct said *from, const char *name,
		  const struct strv *values)
{
	size_t last = from->names.len;
	int r = 0;

	for (size_t i = 0; i < from->names.len; i++)
		if (is_in(from->names.items[i], name))
			last = i + 1;
	for (size_t i = 0; i <= from->names.len && r == 0; i++) {
		for (size_t k = 0; i == last && k < values->len && r == 0; k++)
			r = add(to, name, values->items[k]);
		if (r == 0 && i < from->names.len && strcmp(from->names.items[i], name) != 0)
			r = add(to, from->names.items[i], from->values.items[i]);
	}
	return r;
}

int live_edit(const char *text, const char *name, const struct strv *values, struct buf *ret,
	      struct cay_error *err)
{
	_cleanup_(said_done) struct said was = {0}, is = {0};
	int r;

	if (check_edit(name, values, err) < 0 || read_text(text, &was, err) < 0)
		return -1;
	r = insert(&is, &was, name, values);
	if (r == 0)
		r = write_text(&is, ret);
	if (r == -EFBIG)
		return cay_fail(err, CAY_E_TOO_LARGE, 0, "the settings have more than %u KiB",
				LIVE_TEXT_MAX >> 10);
	return r < 0 ? no_memory(err) : 0;
}

static int values_of(const struct said *s, const char *name, struct strv *ret)
{
	int r = 0;

	for (size_t i = 0; i < s->names.len && r == 0; i++)
		if (strcmp(s->names.items[i], name) == 0)
			r = strv_add(ret, s->values.items[i]);
	return r;
}

static bool is_same(const struct strv *a, const struct strv *b)
{
	bool same = a->len == b->len;

	for (size_t i = 0; same && i < a->len; i++)
		same = strcmp(a->items[i], b->items[i]) == 0;
	return same;
}

static int diff_key(const struct said *was, const struct said *is, const char *name,
		    live_diff_fn *fn, void *ctx)
{
	_cleanup_(strv_done) struct strv old = {0}, new = {0};
	int r = values_of(was, name, &old);

	if (r == 0)
		r = values_of(is, name, &new);
	if (r == 0 && !is_same(&old, &new))
		fn(ctx, name, &old, &new);
	return r;
}

/* Each name once. */
static int diff_all(const struct said *of, const struct said *was, const struct said *is,
		    struct strv *done, live_diff_fn *fn, void *ctx)
{
	int r = 0;

	for (size_t i = 0; i < of->names.len && r == 0; i++) {
		const char *name = of->names.items[i];

		if (strv_has(done, name))
			continue;
		r = strv_add(done, name);
		if (r == 0)
			r = diff_key(was, is, name, fn, ctx);
	}
	return r;
}

int live_diff(const char *was, const char *is, live_diff_fn *fn, void *ctx)
{
	_cleanup_(said_done) struct said old = {0}, new = {0};
	_cleanup_(strv_done) struct strv done = {0};
	struct cay_error err;
	int r;

	if (read_text(was, &old, &err) < 0 || read_text(is, &new, &err) < 0)
		return -1;
	r = diff_all(&new, &old, &new, &done, fn, ctx);
	if (r == 0)
		r = diff_all(&old, &old, &new, &done, fn, ctx);
	return r < 0 ? -1 : 0;
}
