#include "cli/cli.h"

#include "base/attr.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/strv.h"
#include "base/text.h"
#include "cli/options.h"
#include "cli/remote.h"
#include "core/error.h"
#include "image/runtime_images.h"
#include "image/runtime_list.h"
#include "settings/settings.h"
#include "spec/language.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OUTPUT_MAX_BYTES (1u << 20)

/* The table, from the JSON that a daemon answers as well. */
struct listing {
	struct buf out;
	const struct json *found; /* an array */
	struct strv cells;        /* what was made harmless */
	struct {
		int language, version, reason;
	} width;
	bool measured; /* the columns are as wide as they must be */
};

static void widen(int *width, const char *text)
{
	int n = (int)strlen(text);

	if (n > *width)
		*width = n;
}

/* The columns become wide enough for the row, or it is begun. */
static int begin_row(struct listing *l, const char *language, const char *version,
		     const char *reason)
{
	if (l->measured)
		return buf_printf(&l->out, "%-*s  %-*s  %-*s  ", l->width.language, language,
				  l->width.version, version, l->width.reason, reason);
	widen(&l->width.language, language);
	widen(&l->width.version, version);
	widen(&l->width.reason, reason);
	return 0;
}

/* The rest of it. */
_printf_(2, 3) static int end_row(struct listing *l, const char *format, ...)
{
	va_list args;
	int r;

	if (!l->measured)
		return 0;
	va_start(args, format);
	r = buf_vprintf(&l->out, format, args);
	va_end(args);
	return r;
}

static int print_title(struct listing *l)
{
	int r = end_row(l, "%s", cli_style(STDOUT_FILENO, STYLE_STRONG));

	if (r == 0)
		r = begin_row(l, "LANGUAGE", "VERSION", "DEFAULT");
	return r < 0 ? r : end_row(l, "PROGRAM%s\n", cli_style(STDOUT_FILENO, STYLE_PLAIN));
}

/* "s" where a row names several packages. */
static const char *plural(const struct language *language)
{
	return strchr(language->package, ' ') ? "s" : "";
}

/* NULL: there is none. What a daemon says may not act on a terminal. */
static const char *cell(struct listing *l, const struct json *rt, const char *name)
{
	_cleanup_(buf_done) struct buf copy = BUF(OUTPUT_MAX_BYTES),
				       harmless = BUF(OUTPUT_MAX_BYTES);
	const char *text = json_str(json_get(rt, name));

	if (!text)
		return NULL;
	if (buf_append_str(&copy, text) < 0 ||
	    text_append_harmless(&harmless, copy.data, copy.len) < 0 ||
	    strv_add(&l->cells, buf_str(&harmless)) < 0)
		return "?";
	return l->cells.items[l->cells.len - 1];
}

/* What is everywhere the same is not said: a tool that belongs to the program, the host. */
static int list_found(struct listing *l, const struct language *language, const struct json *rt)
{
	const char *version = cell(l, rt, "version"), *reason = cell(l, rt, "reason");
	const char *program = cell(l, rt, "program"), *tool = cell(l, rt, "tool");
	const char *source = cell(l, rt, "source"), *lacks = cell(l, rt, "lacks");
	const char *image = cell(l, rt, "image");
	int r = begin_row(l, language->name, version ? version : "-",
			  lacks    ? "unusable"
			  : reason ? reason
				   : "");

	if (r == 0)
		r = end_row(l, "%s", program ? program : "?");
	if (r == 0 && tool && !language->tool_beside)
		r = end_row(l, ", %s", tool);
	if (r == 0 && image)
		r = end_row(l, " in the image %s", image);
	if (r == 0 && source && strcmp(source, "host") != 0 && strcmp(source, "store") != 0)
		r = end_row(l, " (%s)", source);
	if (r == 0 && lacks && image)
		r = end_row(l, ": no %s", lacks);
	else if (r == 0 && lacks)
		r = end_row(l, ": no %s; install the Debian package%s %s", lacks, plural(language),
			    language->package);
	return r < 0 ? r : end_row(l, "\n");
}

static int list_missing(struct listing *l, const struct language *language)
{
	int r = end_row(l, "%s", cli_style(STDOUT_FILENO, STYLE_QUIET));
	char image[RUNTIME_IMAGE_SIZE];

	runtime_image_name(language, NULL, image);
	if (r == 0)
		r = begin_row(l, language->name, "-", "missing");
	return r < 0 ? r
		     : end_row(l, "%s%s%sinstall the Debian package%s %s%s\n",
			       image[0] ? "cay image pull " : "", image, image[0] ? ", or " : "",
			       plural(language), language->package,
			       cli_style(STDOUT_FILENO, STYLE_PLAIN));
}

static int list_language(struct listing *l, const struct language *language)
{
	size_t n = 0;
	int r = 0;

	for (size_t i = 0; i < json_len(l->found) && r == 0; i++) {
		const struct json *rt = json_at(l->found, i);
		const char *name = json_str(json_get(rt, "language"));

		if (!name || strcmp(name, language->name) != 0)
			continue;
		r = list_found(l, language, rt);
		n++;
	}
	return r < 0 || n > 0 ? r : list_missing(l, language);
}

/* One language, or all if it is NULL: twice, so that the columns are as wide as they must. */
static int list(struct listing *l, const struct language *only)
{
	const struct language *first = only ? only : languages;
	size_t n = only ? 1 : n_languages;
	int r = 0;

	for (int pass = 0; pass < 2 && r == 0; pass++) {
		l->measured = pass > 0;
		r = print_title(l);
		for (size_t i = 0; i < n && r == 0; i++)
			r = list_language(l, &first[i]);
	}
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

static int find_here(const struct language *language, struct json **ret, struct cay_error *err)
{
	_cleanup_(settings_done) struct settings settings;

	settings_init(&settings);
	return settings_load(&settings, err) < 0 ? -1
						 : runtime_list_json(&settings, language, ret, err);
}

static int ask_daemon(const struct language *language, struct json **ret, struct cay_error *err)
{
	_cleanup_(remote_freep) struct remote *r = NULL;
	_cleanup_(buf_done) struct buf path = BUF(256);
	int e = buf_append_str(&path, "/v1/runtimes");

	if (e == 0 && language)
		e = buf_append_str(&path, "?language=");
	if (e == 0 && language)
		e = text_append_encoded(&path, language->name);
	if (e < 0)
		return cay_fail(err, CAY_E_INTERNAL, -e, "ask for runtimes");
	if (remote_open(&r, err) < 0)
		return -1;
	return remote_json(r, &(struct remote_ask){.method = "GET", .path = buf_str(&path)}, ret,
			   err);
}

static int show(bool json, const struct language *language, struct cay_error *err)
{
	_cleanup_(json_freep) struct json *all = NULL;
	const char *host = getenv("CAY_HOST");
	struct listing l = {.out = BUF(OUTPUT_MAX_BYTES)};
	int r = host && host[0] ? ask_daemon(language, &all, err) : find_here(language, &all, err);

	if (r < 0)
		return -1;
	l.found = json_get(all, "runtimes");
	r = json ? json_text(all, &l.out) : list(&l, language);
	r = r < 0 ? cay_fail(err, CAY_E_INTERNAL, -r, "list the runtimes") : print(&l, err);
	buf_done(&l.out);
	strv_done(&l.cells);
	return r;
}

static const struct option_row rows[] = {
	{0, "json", NULL, "as one JSON object", .set = option_store_flag},
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
		 "which one a run without a version gets: the preferred one, else the newest. Of\n"
		 "one version settings come first, then images, then the host. With CAY_HOST they\n"
		 "are that daemon's.\n",
	.examples = "  cay runtimes\n"
		    "  cay runtimes python\n",
	.notes = "Runtimes are found in /usr/local/bin and /usr/bin, where Debian has further Go\n"
		 "and Java, in images that were pulled (python:3.12-slim), and in the directories\n"
		 "(a prefix with bin/ in it, or one with the program itself) and images that\n"
		 "settings name:\n"
		 "\n"
		 "  [language python]\n"
		 "  prefer = 3.12\n"
		 "  path = /opt/python-3.12\n"
		 "  image = python:3.12-slim\n"
		 "\n"
		 "`cay run -l python@3.12` asks for a version.\n",
	.argument = "LANGUAGE",
	.rows = rows,
	.n_rows = ARRAY_LEN(rows),
	.run = run_runtimes,
};
