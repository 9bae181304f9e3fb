#include "cli/cli.h"

#include "base/attr.h"
#include "base/buf.h"
#include "base/json.h"
#include "cli/options.h"
#include "core/error.h"
#include "settings/settings.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SHOW_MAX_BYTES (16u << 20)

/* What was printed may still sit in stdio's buffer, and the disk behind it be full. */
static int finish(bool json)
{
	struct cay_error err;

	if (fflush(stdout) == 0 && !ferror(stdout))
		return 0;
	(void)cay_fail(&err, CAY_E_INTERNAL, errno, "write to standard output");
	return cli_error(&err, json);
}

struct table {
	bool print; /* the second time round: the widths are known */
	size_t name_width, value_width;
};

static void show_line(void *ctx, const char *section, const char *key, const char *value,
		      const char *origin)
{
	struct table *t = ctx;
	size_t name_len = strlen(section) + 1 + strlen(key);

	if (t->print) {
		(void)printf("%s.%s%*s = %-*s  # %s\n", section, key,
			     (int)(t->name_width - name_len), "", (int)t->value_width, value,
			     origin);
		return;
	}
	t->name_width = size_max(t->name_width, name_len);
	t->value_width = size_max(t->value_width, strlen(value));
}

static void show_object(void *ctx, const char *section, const char *key, const char *value,
			const char *origin)
{
	struct json *o = json_new_object();

	json_set_str(o, "section", section);
	json_set_str(o, "key", key);
	json_set_str(o, "value", value);
	json_set_str(o, "origin", origin);
	json_add(ctx, o);
}

static int print_json(const struct settings *s, struct cay_error *err)
{
	_cleanup_(json_freep) struct json *list = json_new_array();
	_cleanup_(buf_done) struct buf text = BUF(SHOW_MAX_BYTES);
	int r;

	settings_show(s, show_object, list);
	r = json_text(list, &text);
	if (r < 0)
		return cay_fail(err, CAY_E_INTERNAL, -r, "write the settings as JSON");
	(void)fputs(buf_str(&text), stdout);
	return 0;
}

static int show(bool json)
{
	_cleanup_(settings_done) struct settings s;
	struct table table = {0};
	struct cay_error err;

	settings_init(&s);
	if (settings_load(&s, &err) < 0)
		return cli_error(&err, json);
	if (json) {
		if (print_json(&s, &err) < 0)
			return cli_error(&err, json);
		return finish(json);
	}
	settings_show(&s, show_line, &table);
	table.print = true;
	settings_show(&s, show_line, &table);
	return finish(json);
}

static int list_files(struct strv *files, bool json)
{
	struct cay_error err;
	int r = settings_files(files);

	if (r == 0)
		return 0;
	(void)cay_fail(&err, CAY_E_INTERNAL, -r, "find the settings files");
	return cli_error(&err, json);
}

/* All files are looked at, also after an error: an operator wants to mend them in one go. */
static int check(bool json)
{
	_cleanup_(settings_done) struct settings s;
	_cleanup_(strv_done) struct strv files = {0};
	bool found, any = false;
	struct cay_error err;
	int status;

	settings_init(&s);
	status = list_files(&files, json);
	for (size_t i = 0; i < files.len; i++) {
		if (settings_load_file(&s, files.items[i], &found, &err) < 0) {
			status = cli_error(&err, json);
			continue;
		}
		any = any || found;
		if (found)
			(void)printf("ok %s\n", files.items[i]);
	}
	if (!any && status == 0)
		(void)printf("ok (no settings file: all defaults)\n");
	return status ? status : finish(json);
}

static int path(bool json)
{
	_cleanup_(strv_done) struct strv files = {0};
	size_t width = 0;
	int status = list_files(&files, json);

	for (size_t i = 0; i < files.len; i++)
		width = size_max(width, strlen(files.items[i]));
	for (size_t i = 0; i < files.len; i++)
		(void)printf("%-*s  %s\n", (int)width, files.items[i],
			     access(files.items[i], F_OK) == 0 ? "found" : "absent");
	return status ? status : finish(json);
}

static const struct action {
	const char *name;
	int (*run)(bool json);
	bool json;
} actions[] = {
	{"show", show, true},
	{"check", check, false},
	{"path", path, false},
};

static const struct action *find_action(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(actions); i++)
		if (strcmp(actions[i].name, name) == 0)
			return &actions[i];
	return NULL;
}

static const struct option_row rows[] = {
	{0, "json", NULL, "show: an array of {section, key, value, origin}",
	 .set = option_store_flag},
};

static int choose(const char *name, bool json, const struct action **ret, struct cay_error *err)
{
	*ret = name ? find_action(name) : NULL;
	if (!name)
		(void)cay_fail(err, CAY_E_INVALID, 0, "config show, check or path?");
	else if (!*ret)
		(void)cay_fail(err, CAY_E_INVALID, 0, "unknown: config %.64s", name);
	else if (json && !(*ret)->json)
		(void)cay_fail(err, CAY_E_INVALID, 0, "no --json with config %s", name);
	else
		return 0;
	return cay_hint(err, "cay config show|check|path; cay config --help says more");
}

static int run_config(int argc, char **argv)
{
	const struct action *action;
	const char *name;
	struct cay_error err;
	bool json = false;
	int r = verb_parse(&verb_config, argc, argv, &json, &name, 1, &err);

	if (r == 1)
		return finish(json);
	if (r < 0 || choose(name, json, &action, &err) < 0)
		return cli_error(&err, json);
	return action->run(json);
}

const struct verb verb_config = {
	.name = "config",
	.summary = "show, check and locate the settings",
	.usage = "show [--json] | check | path",
	.about = "  show    every setting in force, and the file it came from\n"
		 "  check   read all settings files and say what is wrong with them\n"
		 "  path    the settings files, in the order they are read\n",
	.examples = "  cay config show | grep limits\n"
		    "  CAY_CONFIG=./cay.conf cay config check\n",
	.notes = "Settings come from /etc/cay/cay.conf, then $XDG_CONFIG_HOME/cay/cay.conf or\n"
		 "~/.config/cay/cay.conf, then the file that CAY_CONFIG names. A later file\n"
		 "overrides single values and adds to lists. As root, only files that are root's\n"
		 "own are read; any other is an error. They are this machine's, whatever CAY_HOST\n"
		 "says: a daemon has read its own.\n",
	.argument = "show|check|path",
	.rows = rows,
	.n_rows = ARRAY_LEN(rows),
	.run = run_config,
};
