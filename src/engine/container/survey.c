#include "engine/container/survey.h"

#include "base/attr.h"
#include "base/json.h"
#include "base/text.h"
#include "engine/container/docker_images.h"
#include "engine/container/place.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Said by GET /info; what is false, containers can't have. */
static const struct {
	const char *key, *lack;
} features[] = {
	{"MemoryLimit", "a memory limit"},
	{"SwapLimit", "a limit of swap"},
	{"CpuCfsQuota", "a CPU limit"},
	{"PidsLimit", "a limit of processes"},
};

static void take_text(const struct json *j, const char *key, char *to, size_t size)
{
	const struct json *v = j ? json_get(j, key) : NULL;
	const char *text = v ? json_str(v) : NULL;

	(void)snprintf(to, size, "%s", text ? text : "");
	text_flatten(to, strlen(to));
	to[text_utf8_whole(to, strlen(to))] = '\0';
}

static void add_lack(struct survey *ret, const char *what)
{
	size_t len = strlen(ret->lacks);

	(void)snprintf(ret->lacks + len, sizeof(ret->lacks) - len, "%s%s", len ? ", " : "", what);
}

static bool has_option(const struct json *info, const char *option)
{
	const struct json *list = json_get(info, "SecurityOptions");
	size_t n = list && json_kind(list) == JSON_KIND_ARRAY ? json_len(list) : 0;

	for (size_t i = 0; i < n; i++) {
		const char *text = json_str(json_at(list, i));

		if (text && strstr(text, option))
			return true;
	}
	return false;
}

/* Podman names all it could use: those it has are at their paths. */
static bool has_runtime(const struct json *info, const char *name)
{
	const struct json *all = json_get(info, "Runtimes");
	const struct json *one =
		all && json_kind(all) == JSON_KIND_OBJECT ? json_get(all, name) : NULL;
	const struct json *path =
		one && json_kind(one) == JSON_KIND_OBJECT ? json_get(one, "path") : NULL;
	const char *text = path ? json_str(path) : NULL;

	return one && (!text || text[0] != '/' || access(text, X_OK) == 0);
}

static void read_info(const struct json *info, struct survey *ret)
{
	take_text(info, "ServerVersion", ret->version, sizeof(ret->version));
	take_text(info, "CgroupDriver", ret->cgroup_driver, sizeof(ret->cgroup_driver));
	take_text(info, "CgroupVersion", ret->cgroup_version, sizeof(ret->cgroup_version));
	take_text(info, "DefaultRuntime", ret->runtime, sizeof(ret->runtime));
	ret->rootless = has_option(info, "rootless");
	for (size_t i = 0; i < ARRAY_LEN(features); i++) {
		const struct json *v = json_get(info, features[i].key);

		if (v && json_kind(v) == JSON_KIND_BOOL && !json_bool(v))
			add_lack(ret, features[i].lack);
	}
	if (!has_option(info, "seccomp"))
		add_lack(ret, "the engine's own filter of system calls");
}

/* What the settings ask for is there, or nothing would run. */
static int check_runtime(const struct json *info, const struct container_settings *own,
			 struct survey *ret)
{
	const char *name = docker_name(ret->engine);

	if (!own->runtime)
		return 0;
	(void)snprintf(ret->runtime, sizeof(ret->runtime), "%s", own->runtime);
	if (has_runtime(info, own->runtime))
		return 0;
	(void)cay_fail(&ret->error, CAY_E_ENGINE, 0, "%s has no runtime %s", name, own->runtime);
	return cay_hint(&ret->error,
			"install it and tell %s of it, or change runtime in the settings", name);
}

static int look(const struct docker_place *place, const struct settings *s, struct survey *ret)
{
	_cleanup_(docker_freep) struct docker *d = NULL;
	_cleanup_(json_freep) struct json *info = NULL;

	if (docker_open(place, &d, &ret->error) < 0)
		return -1;
	ret->api = docker_api(d);
	if (docker_info(d, &info, &ret->error) < 0)
		return -1;
	if (!info || json_kind(info) != JSON_KIND_OBJECT)
		return cay_fail(&ret->error, CAY_E_ENGINE, 0, "%s says nothing about itself",
				docker_name(ret->engine));
	read_info(info, ret);
	return check_runtime(info, place_settings(ret->engine, s), ret);
}

void survey_engine(enum spec_engine engine, const struct settings *s, struct survey *ret)
{
	struct docker_place place;
	char why[128] = "";

	*ret = (struct survey){.engine = engine};
	if (place_find_why(engine, s, &place, why, &ret->error) < 0)
		return;
	_Static_assert(sizeof(ret->path) == sizeof(place.path), "a path is a path");
	memcpy(ret->path, place.path, sizeof(ret->path));
	(void)snprintf(ret->why, sizeof(ret->why), "%s", why);
	ret->usable = look(&place, s, ret) == 0;
	if (ret->usable && geteuid() != 0)
		add_lack(ret, "a network (rules for one need root)");
	else if (ret->usable && ret->rootless)
		add_lack(ret, "a network (rules for one need an engine of root's)");
}

bool survey_is_there(enum spec_engine engine, const struct settings *s)
{
	_cleanup_(docker_freep) struct docker *d = NULL;
	struct docker_place place;
	struct cay_error err;

	return place_find(engine, s, &place, &err) == 0 && docker_open(&place, &d, &err) == 0;
}
