#include "cli/cli.h"

#include "base/attr.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/json.h"
#include "cli/options.h"
#include "core/error.h"
#include "image/runtime.h"
#include "image/runtime_list.h"
#include "settings/settings.h"
#include "spec/language.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#define OUTPUT_MAX_BYTES (1u << 20)

/* The table. */
struct listing {
	struct buf out;
	struct {
		int language, version, reason;
	} width;
};

static void widen(int *width, const char *text)
{
	int n = (int)strlen(text);

	if (n > *width)
		*width = n;
}

static const char *version_of(const struct runtime *rt)
{
	return rt->version[0] ? rt->version : "-";
}

static const char *reason_of(const struct runtime *rt)
{
	return rt->lacks ? "unusable" : rt->default_reason ? rt->default_reason : "";
}

/* The columns become wide enough for the row. */
static void measure(struct listing *l, const char *language, const char *version,
		    const char *reason)
{
	widen(&l->width.language, language);
	widen(&l->width.version, version);
	widen(&l->width.reason, reason);
}

static int begin_row(struct listing *l, const char *language, const char *version,
		     const char *reason)
{
	return buf_printf(&l->out, "%-*s  %-*s  %-*s  ", l->width.language, language,
			  l->width.version, version, l->width.reason, reason);
}

static int print_title(struct listing *l)
{
	int r = buf_append_str(&l->out, cli_style(STDOUT_FILENO, STYLE_STRONG));

	if (r == 0)
		r = begin_row(l, "LANGUAGE", "VERSION", "DEFAULT");
	return r < 0 ? r
		     : buf_printf(&l->out, "PROGRAM%s\n", cli_style(STDOUT_FILENO, STYLE_PLAIN));
}

/* "s" where a row names several packages. */
static const char *plural(const struct language *language)
{
	return strchr(language->package, ' ') ? "s" : "";
}

/* What is everywhere the same is not said: a tool that belongs to the program, the host. */
static int print_runtime(struct listing *l, const struct runtime *rt)
{
	const struct language *language = rt->language;
	int r = begin_row(l, language->name, version_of(rt), reason_of(rt));

	if (r == 0)
		r = buf_printf(&l->out, "%s", rt->program);
	if (r == 0 && rt->tool[0] && !language->tool_beside)
		r = buf_printf(&l->out, ", %s", rt->tool);
	if (r == 0 && strcmp(rt->source, "host") != 0)
		r = buf_printf(&l->out, " (%s)", rt->source);
	if (r == 0 && rt->lacks)
		r = buf_printf(&l->out, ": no %s; install the Debian package%s %s", rt->lacks,
			       plural(language), language->package);
	return r < 0 ? r : buf_printf(&l->out, "\n");
}

static int list_missing(struct listing *l, const struct language *language)
{
	int r = buf_append_str(&l->out, cli_style(STDOUT_FILENO, STYLE_QUIET));

	if (r == 0)
		r = begin_row(l, language->name, "-", "missing");
	return r < 0 ? r
		     : buf_printf(&l->out, "install the Debian package%s %s%s\n", plural(language),
				  language->package, cli_style(STDOUT_FILENO, STYLE_PLAIN));
}

static int list_found(struct listing *l, const struct language *language,
		      const struct runtimes *runtimes)
{
	int r = 0;

	if (runtimes->len == 0)
		return list_missing(l, language);
	for (size_t i = 0; i < runtimes->len && r == 0; i++)
		r = print_runtime(l, &runtimes->items[i]);
	return r;
}

/* One language, or all if it is NULL: found first, so that the columns are as wide as they must. */
static int list(struct listing *l, const struct language *only, const struct settings *settings,
		struct cay_error *err)
{
	const struct language *first = only ? only : languages;
	size_t n = only ? 1 : n_languages;
	struct runtimes *found = calloc(n, sizeof(*found));
	int r = found ? 0 : cay_fail(err, CAY_E_INTERNAL, ENOMEM, "list the runtimes");

	measure(l, "LANGUAGE", "VERSION", "DEFAULT");
	for (size_t i = 0; i < n && r == 0; i++) {
		r = runtimes_find(settings, &first[i], &found[i], err);
		measure(l, first[i].name, "", "");
		for (size_t k = 0; k < found[i].len; k++)
			measure(l, "", version_of(&found[i].items[k]),
				reason_of(&found[i].items[k]));
	}
	if (r == 0 && print_title(l) < 0)
		r = cay_fail(err, CAY_E_INTERNAL, ENOMEM, "list the runtimes");
	for (size_t i = 0; i < n && r == 0; i++)
		if (list_found(l, &first[i], &found[i]) < 0)
			r = cay_fail(err, CAY_E_INTERNAL, ENOMEM, "list the runtimes");
	for (size_t i = 0; found && i < n; i++)
		runtimes_done(&found[i]);
	free(found);
	return r;
}

static int unknown_language(const char *name, struct cay_error *err)
{
	_cleanup_(buf_done) struct buf known = BUF(sizeof(err->hint) - 32);

	for (size_t i = 0; i < n_languages; i++)
		(void)buf_printf(&known, "%s%s", i ? ", " : "", languages[i].name);
	(void)cay_fail(err, CAY_E_INVALID, 0, "there is no language '%s'", name);
	return cay_hint(err, "the languages are %s", buf_str(&known));
}

static int print(struct listing *l, struct cay_error *err)
{
	int r = fd_write_all(STDOUT_FILENO, l->out.data, l->out.len);

	return r < 0 ? cay_fail(err, CAY_E_INTERNAL, -r, "write to standard output") : 0;
}

static int show(bool json, const struct language *language, struct cay_error *err)
{
	_cleanup_(settings_done) struct settings settings;
	_cleanup_(json_freep) struct json *all = NULL;
	struct listing l = {.out = BUF(OUTPUT_MAX_BYTES)};
	int r;

	settings_init(&settings);
	if (settings_load(&settings, err) < 0)
		return -1;
	if (!json)
		r = list(&l, language, &settings, err);
	else
		r = runtime_list_json(&settings, language, &all, err);
	if (r == 0 && json && json_text(all, &l.out) < 0)
		r = cay_fail(err, CAY_E_INTERNAL, ENOMEM, "list the runtimes");
	if (r == 0)
		r = print(&l, err);
	buf_done(&l.out);
	return r;
}

static int set_json(void *ctx, const struct option_row *row _unused_, const char *value _unused_,
		    struct cay_error *err _unused_)
{
	*(bool *)ctx = true;
	return 0;
}

static const struct option_row rows[] = {
	{0, "json", NULL, "as one JSON object", set_json},
};

static int run_runtimes(int argc, char **argv)
{
	const struct language *language = NULL;
	const char *name;
	struct cay_error err;
	bool json = false;
	int r = verb_parse(&verb_runtimes, argc, argv, &json, &name, 1, &err);

	if (r == 1)
		return 0;
	if (r == 0 && name) {
		language = language_find(name);
		if (!language)
			r = unknown_language(name, &err);
	}
	if (r < 0 || show(json, language, &err) < 0)
		return cli_error(&err, json);
	return 0;
}

const struct verb verb_runtimes = {
	.name = "runtimes",
	.summary = "list languages, their versions and which one is used",
	.usage = "[--json] [LANGUAGE]",
	.about = "Lists the languages and the versions of them that programs can run with, and\n"
		 "which one a run without a version gets: the preferred one, else the newest.\n",
	.examples = "  cay runtimes\n"
		    "  cay runtimes python\n",
	.notes = "Runtimes are found in /usr/local/bin and /usr/bin, where Debian has further Go\n"
		 "and Java, and in the directories that settings name (a prefix with bin/ in it,\n"
		 "or a directory with the program itself):\n"
		 "\n"
		 "  [language python]\n"
		 "  prefer = 3.12\n"
		 "  path = /opt/python-3.12\n"
		 "\n"
		 "`cay run -l python@3.12` asks for a version.\n",
	.argument = "LANGUAGE",
	.rows = rows,
	.n_rows = ARRAY_LEN(rows),
	.run = run_runtimes,
};
