#include "cli/doctor_engines.h"

#include "base/attr.h"
#include "base/json.h"
#include "cli/cli.h"
#include "engine/container/survey.h"

#include <stdio.h>
#include <unistd.h>

static const enum spec_engine engines[] = {ENGINE_PODMAN, ENGINE_DOCKER};

/* What the api is called, "" where it was not asked. */
static void api_text(const struct survey *s, char text[16])
{
	text[0] = '\0';
	if (s->api)
		(void)snprintf(text, 16, "1.%d", s->api);
}

static void survey_all(struct survey found[ARRAY_LEN(engines)])
{
	struct settings settings;
	struct cay_error err;
	int r;

	settings_init(&settings);
	r = settings_load(&settings, &err);
	for (size_t i = 0; i < ARRAY_LEN(engines); i++)
		if (r < 0)
			found[i] = (struct survey){.engine = engines[i], .error = err};
		else
			survey_engine(engines[i], &settings, &found[i]);
	settings_done(&settings);
}

static void print_one(const struct survey *s)
{
	char how[160] = "", api[16];

	api_text(s, api);
	if (s->api)
		(void)snprintf(how, sizeof(how), "%s, API %s, %s on v%s%s", s->version, api,
			       s->cgroup_driver, s->cgroup_version,
			       s->rootless ? ", rootless" : "");
	(void)printf("%s%-5s%s %-18s %-28s",
		     cli_style(STDOUT_FILENO, s->usable ? STYLE_GOOD : STYLE_DOUBT),
		     s->usable ? "ok" : "no", cli_style(STDOUT_FILENO, STYLE_PLAIN),
		     spec_engine_name(s->engine), how);
	if (s->usable)
		(void)printf(" %s%s%s\n", s->runtime, s->path[0] ? ", " : "", s->path);
	else
		(void)printf(" %s\n", s->error.text);
	if (s->usable && s->lacks[0])
		(void)printf("      %-18s -> can't have: %s\n", "", s->lacks);
	if (!s->usable && s->error.hint[0])
		(void)printf("      %-18s -> %s\n", "", s->error.hint);
}

void doctor_engines_print(void)
{
	struct survey found[ARRAY_LEN(engines)];

	survey_all(found);
	for (size_t i = 0; i < ARRAY_LEN(found); i++)
		print_one(&found[i]);
}

static struct json *one_json(const struct survey *s)
{
	struct json *o = json_new_object();
	char api[16];

	api_text(s, api);
	json_set_str(o, "engine", spec_engine_name(s->engine));
	json_set_bool(o, "usable", s->usable);
	json_set_str(o, "socket", s->path);
	json_set_str(o, "found_by", s->why);
	json_set_str(o, "version", s->version);
	json_set_str(o, "api", api);
	json_set_str(o, "cgroup_driver", s->cgroup_driver);
	json_set_str(o, "cgroup_version", s->cgroup_version);
	json_set_str(o, "runtime", s->runtime);
	json_set_bool(o, "rootless", s->rootless);
	json_set_str(o, "lacks", s->lacks);
	json_set_str(o, "reason", s->usable ? "" : s->error.text);
	json_set_str(o, "todo", s->usable ? "" : s->error.hint);
	return o;
}

struct json *doctor_engines_json(void)
{
	struct survey found[ARRAY_LEN(engines)];
	struct json *list = json_new_array();

	survey_all(found);
	for (size_t i = 0; i < ARRAY_LEN(found); i++)
		json_add(list, one_json(&found[i]));
	return list;
}
