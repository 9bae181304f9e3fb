#include "cli/cli.h"

#include "base/attr.h"
#include "base/buf.h"
#include "base/json.h"
#include "cli/config_daemon.h"
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

void config_show_line(void *table, const char *section, const char *key, const char *value,
		      const char *origin)
{
	struct config_table *t = table;
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

static int show_files(bool json)
{
	_cleanup_(settings_done) struct settings s;
	struct config_table table = {0};
	struct cay_error err;

	settings_init(&s);
	if (settings_load(&s, &err) < 0)
		return cli_error(&err, json);
	if (json) {
		if (print_json(&s, &err) < 0)
			return cli_error(&err, json);
		return finish(json);
	}
	settings_show(&s, config_show_line, &table);
	table.print = true;
	settings_show(&s, config_show_line, &table);
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

struct ask {
	bool json, files;
};

static int show(const struct ask *a)
{
	struct cay_error err;
	int r = a->files ? 1 : config_daemon_show(a->json, &err);

	if (r < 0)
		return cli_error(&err, a->json);
	return r == 1 ? show_files(a->json) : finish(a->json);
}

static const struct action {
	const char *name;
	/* Of this machine alone, */
	int (*run)(const struct ask *a);
	int (*here)(bool json);
	/* or of a daemon. */
	int (*there)(const char *const words[], bool json, struct cay_error *err);
	bool json;
} actions[] = {
	{"show", .run = show, .json = true},
	{"check", .here = check},
	{"path", .here = path},
	{"set", .there = config_daemon_set, .json = true},
	{"unset", .there = config_daemon_unset, .json = true},
	{"history", .there = config_daemon_history, .json = true},
	{"rollback", .there = config_daemon_rollback, .json = true},
};

static const struct action *find_action(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(actions); i++)
		if (strcmp(actions[i].name, name) == 0)
			return &actions[i];
	return NULL;
}

static const struct option_row rows[] = {
	{0, "files", NULL, "show: what the files of this machine say, whatever a daemon has",
	 OPTION_STORE(struct ask, files)},
	{0, "json", NULL, "show: an array of {section, key, value, origin}",
	 OPTION_STORE(struct ask, json)},
};

static int choose(const char *const words[], const struct ask *a, const struct action **ret,
		  struct cay_error *err)
{
	const char *name = words[0];

	*ret = name ? find_action(name) : NULL;
	if (!name)
		(void)cay_fail(err, CAY_E_INVALID, 0, "config show, check, path, set ...?");
	else if (!*ret)
		(void)cay_fail(err, CAY_E_INVALID, 0, "unknown: config %.64s", name);
	else if (a->json && !(*ret)->json)
		(void)cay_fail(err, CAY_E_INVALID, 0, "no --json with config %s", name);
	else if (a->files && (*ret)->run != show)
		(void)cay_fail(err, CAY_E_INVALID, 0, "no --files with config %s", name);
	else if (words[1] && !(*ret)->there)
		(void)cay_fail(err, CAY_E_INVALID, 0, "config %s takes nothing more", name);
	else
		return 0;
	return cay_hint(err, "cay config show|check|path|set|unset|history|rollback; cay config "
			     "--help says more");
}

static int carry_out(const struct action *action, const char *const words[], const struct ask *a)
{
	struct cay_error err;

	if (action->run)
		return action->run(a);
	if (action->here)
		return action->here(a->json);
	return action->there(words + 1, a->json, &err) < 0 ? cli_error(&err, a->json)
							   : finish(a->json);
}

/* The action, a key, and values. */
#define WORDS_MAX 130

static int run_config(int argc, char **argv)
{
	const char *words[WORDS_MAX + 1] = {NULL};
	const struct action *action;
	struct cay_error err;
	struct ask a = {0};
	int r = verb_parse(&verb_config, argc, argv, &a, words, WORDS_MAX, &err);

	if (r == 1)
		return finish(a.json);
	if (r < 0 || choose(words, &a, &action, &err) < 0)
		return cli_error(&err, a.json);
	return carry_out(action, words, &a);
}

const struct verb verb_config = {
	.name = "config",
	.summary = "show, check, locate and change the settings",
	.usage = "show [--files] [--json] | check | path\n"
		 "       cay config set KEY VALUE... | unset KEY | history | rollback VERSION",
	.about = "  show      every setting in force, and where it comes from\n"
		 "  check     read all settings files and say what is wrong with them\n"
		 "  path      the settings files, in the order they are read\n"
		 "  set       one key of a daemon's, at run time: for what begins from then on\n"
		 "  unset     as the files have it\n"
		 "  history   who changed what at run time, and when\n"
		 "  rollback  as it was with that version; 0: as the files have it\n",
	.examples = "  cay config show | grep limits\n"
		    "  CAY_CONFIG=./cay.conf cay config check\n"
		    "  cay config set limits.memory 1g\n"
		    "  cay config rollback 3\n",
	.notes = "Settings come from /etc/cay/cay.conf, then $XDG_CONFIG_HOME/cay/cay.conf or\n"
		 "~/.config/cay/cay.conf, then the file that CAY_CONFIG names. A later file\n"
		 "overrides single values and adds to lists. As root, only files that are root's\n"
		 "own are read; any other is an error. A daemon has read its own when it was\n"
		 "started, and what is set at run time is laid over them: show asks the daemon\n"
		 "where there is one, unless CAY_CONFIG is set.\n",
	.argument = "show|check|path|set|unset|history|rollback",
	.rows = rows,
	.n_rows = ARRAY_LEN(rows),
	.run = run_config,
};
