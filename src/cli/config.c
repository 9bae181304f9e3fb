#include "cli/cli.h"

#include "base/attr.h"
#include "base/buf.h"
#include "base/json.h"
#include "core/error.h"
#include "settings/settings.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SHOW_MAX_BYTES (16u << 20)

static const char help[] =
	"usage: cay config show [--json] | check | path\n"
	"\n"
	"  show    every setting in force, and the file and line it came from\n"
	"  check   read all settings files and say what is wrong with them\n"
	"  path    the settings files, in the order they are read\n"
	"\n"
	"  --json  show: an array of {section, key, value, origin}\n"
	"  --help  this text\n"
	"\n"
	"Settings come from /etc/cay/cay.conf, then $XDG_CONFIG_HOME/cay/cay.conf or\n"
	"~/.config/cay/cay.conf, then the file that CAY_CONFIG names. A later file\n"
	"overrides single values and adds to lists. As root, only files that are root's\n"
	"own are read; any other is an error.\n";

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

static int usage_error(bool json, const char *what, const char *word)
{
	struct cay_error err;

	(void)cay_fail(&err, CAY_E_INVALID, 0, "%s%s", what, word);
	(void)cay_hint(&err, "cay config show|check|path; cay config --help says more");
	return cli_error(&err, json);
}

static const struct action *find_action(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(actions); i++)
		if (strcmp(actions[i].name, name) == 0)
			return &actions[i];
	return NULL;
}

int cli_config(int argc, char **argv)
{
	const struct action *action = NULL;
	bool json = false;

	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
			(void)fputs(help, stdout);
			return finish(json);
		}
		if (strcmp(argv[i], "--json") == 0)
			json = true;
		else if (argv[i][0] == '-')
			return usage_error(json, "unknown option ", argv[i]);
		else if (action)
			return usage_error(json, "one word too many: ", argv[i]);
		else if (!(action = find_action(argv[i])))
			return usage_error(json, "unknown: config ", argv[i]);
	}
	if (!action)
		return usage_error(json, "config show, check or path?", "");
	if (json && !action->json)
		return usage_error(json, "no --json with config ", action->name);
	return action->run(json);
}
