#include "spec/spec.h"

#include "base/attr.h"
#include "base/buf.h"
#include "base/parse.h"
#include "base/words.h"
#include "core/limit.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

const char *access_name(enum access a)
{
	static const char *const names[ACCESSES] = {"ro", "rw", "overlay"};

	return names[a];
}

static void mount_spec_done(struct mount_spec *m)
{
	free(m->source);
	free(m->target);
}

static void transfers_done(struct transfers *t)
{
	for (size_t i = 0; i < t->len; i++) {
		free(t->items[i].from);
		free(t->items[i].to);
	}
}

void spec_done(struct spec *s)
{
	free(s->version);
	free(s->code);
	free(s->cell);
	free(s->file_name);
	free(s->file);
	free(s->entry);
	free(s->stdin_file);
	free(s->workdir);
	free(s->image);
	strv_done(&s->args);
	strv_done(&s->env);
	for (size_t i = 0; i < s->n_mounts; i++)
		mount_spec_done(&s->mounts[i]);
	mount_spec_done(&s->workspace);
	transfers_done(&s->put);
	transfers_done(&s->get);
	network_spec_done(&s->network);
	*s = (struct spec){0};
}

void spec_leave_place(struct spec *s)
{
	const struct limits own = {.timeout_ms = s->limits.timeout_ms,
				   .output_bytes = s->limits.output_bytes};

	for (size_t i = 0; i < s->n_mounts; i++)
		mount_spec_done(&s->mounts[i]);
	mount_spec_done(&s->workspace);
	network_spec_done(&s->network);
	free(s->image);
	s->n_mounts = 0;
	s->workspace = (struct mount_spec){0};
	s->image = NULL;
	s->limits = own;
	s->engine = ENGINE_AUTO;
	s->mode = MODE_UNSAID;
	s->needs_sandbox = NULL;
	s->has_tier = s->trusted = s->writable = s->as_root = s->allow_degraded = false;
}

static int no_memory(struct cay_error *err)
{
	return cay_fail(err, CAY_E_INTERNAL, ENOMEM, "read the request");
}

bool island_path_ok(const char *path)
{
	size_t len = strlen(path);

	if (path[0] != '/' || len >= PATH_MAX)
		return false;
	if (len == 1)
		return true;
	for (const char *p = path; *p;) {
		size_t n = strcspn(p + 1, "/");

		if (n == 0 || n > NAME_MAX || (n == 1 && p[1] == '.') ||
		    (n == 2 && p[1] == '.' && p[2] == '.'))
			return false;
		p += n + 1;
	}
	return true;
}

bool island_workdir_ok(const char *path)
{
	/* Below /proc are links that lead to where a process's fds do: none of it is a place to be.
	 */
	return island_path_ok(path) && strncmp(path, "/proc/", 6) != 0;
}

/*
 * Cuts ":ro", ":rw", or what else is called so and is not above max, off the end. Anything
 * else behind the last colon stays: it may be part of a name.
 */
static enum access cut_access(char *text, enum access max)
{
	char *colon = strrchr(text, ':');

	for (int a = 0; colon && a <= (int)max; a++)
		if (strcmp(colon + 1, access_name((enum access)a)) == 0) {
			*colon = '\0';
			return (enum access)a;
		}
	return ACCESS_READ;
}

int spec_add_mount(struct spec *s, const char *text, struct cay_error *err)
{
	struct mount_spec *m = &s->mounts[s->n_mounts];
	char *source = strdup(text), *colon;

	if (s->n_mounts >= SPEC_MOUNTS_MAX) {
		free(source);
		return cay_fail(err, CAY_E_INVALID, 0, "more than %d mounts", SPEC_MOUNTS_MAX);
	}
	if (!source)
		return no_memory(err);
	*m = (struct mount_spec){.source = source, .access = cut_access(source, ACCESS_WRITE)};
	s->n_mounts++; /* spec_done() frees it from here on */
	colon = strrchr(source, ':');
	if (!colon || colon == source || !island_path_ok(colon + 1)) {
		(void)cay_fail(err, CAY_E_INVALID, 0, "'%s' is not SRC:DEST[:ro|rw]", text);
		return cay_hint(err, "DEST is an absolute path on the island, without '..'; "
				     "for example --volume ./data:/data:ro");
	}
	m->target = strdup(colon + 1);
	*colon = '\0';
	return m->target ? 0 : no_memory(err);
}

int spec_set_workspace(struct spec *s, const char *text, struct cay_error *err)
{
	char *source = strdup(text);

	if (!source)
		return no_memory(err);
	mount_spec_done(&s->workspace);
	s->workspace =
		(struct mount_spec){.source = source, .access = cut_access(source, ACCESS_OVERLAY)};
	if (!*source)
		return cay_fail(err, CAY_E_INVALID, 0, "the workspace '%s' names no directory",
				text);
	s->workspace.target = strdup(ISLAND_WORKSPACE);
	return s->workspace.target ? 0 : no_memory(err);
}

int transfers_add(struct transfers *t, const char *option, const char *text, struct cay_error *err)
{
	struct transfer *x = &t->items[t->len];
	char *from, *colon;

	if (t->len >= SPEC_TRANSFERS_MAX)
		return cay_fail(err, CAY_E_INVALID, 0, "more than %d %s", SPEC_TRANSFERS_MAX,
				option);
	from = strdup(text);
	if (!from)
		return no_memory(err);
	*x = (struct transfer){.from = from};
	t->len++;
	colon = strrchr(from, ':');
	if (colon) {
		*colon = '\0';
		x->to = strdup(colon + 1);
		if (!x->to)
			return no_memory(err);
	}
	if (!*from || (x->to && !*x->to))
		return cay_fail(err, CAY_E_INVALID, 0, "%s '%s': a name is missing", option, text);
	return 0;
}

static bool env_name_ok(const char *name, size_t len)
{
	if (len == 0 || (name[0] >= '0' && name[0] <= '9'))
		return false;
	for (size_t i = 0; i < len; i++) {
		char c = name[i];

		if (c != '_' && !(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'z') &&
		    !(c >= 'A' && c <= 'Z'))
			return false;
	}
	return true;
}

int spec_add_env(struct spec *s, const char *text, struct cay_error *err)
{
	size_t len = strcspn(text, "=");
	const char *value = text[len] ? text + len + 1 : NULL;
	char *name;
	int r;

	if (!env_name_ok(text, len))
		return cay_fail(err, CAY_E_INVALID, 0, "'%.*s' is no name of a variable",
				(int)size_min(len, 64), text);
	name = strndup(text, len);
	if (!name)
		return no_memory(err);
	if (!value)
		value = getenv(name);
	r = value ? strv_set_env(&s->env, name, value) : 0;
	free(name);
	return r < 0 ? no_memory(err) : 0;
}

int spec_set_env(struct spec *s, const char *name, const char *value, struct cay_error *err)
{
	if (!env_name_ok(name, strlen(name)))
		return cay_fail(err, CAY_E_INVALID, 0, "'%.64s' is no name of a variable", name);
	return strv_set_env(&s->env, name, value) < 0 ? no_memory(err) : 0;
}

int spec_add_env_lines(struct spec *s, const char *file, char *text, struct cay_error *err)
{
	int line = 0;

	for (char *next; text; text = next) {
		line++;
		next = strchr(text, '\n');
		if (next)
			*next++ = '\0';
		text += strspn(text, " \t\r");
		if (*text && text[strlen(text) - 1] == '\r')
			text[strlen(text) - 1] = '\0';
		if (*text == '\0' || *text == '#')
			continue;
		if (spec_add_env(s, text, err) < 0)
			return cay_wrap(err, "%s:%d", file, line);
	}
	return 0;
}

static int unknown_language(const char *name, struct cay_error *err)
{
	static const char list[] = "`cay runtimes` lists the languages and their versions";
	struct guess guess = GUESS(name);

	for (size_t i = 0; i < n_languages; i++) {
		guess_offer(&guess, languages[i].name);
		for (size_t k = 0; k < LANGUAGE_WORDS_MAX && languages[i].aliases[k]; k++)
			guess_offer(&guess, languages[i].aliases[k]);
	}
	(void)cay_fail(err, CAY_E_RUNTIME, 0, "no language is called '%.64s'", name);
	return guess.meant ? cay_hint(err, "did you mean %s? %s", guess.meant, list)
			   : cay_hint(err, "%s", list);
}

int spec_set_language(struct spec *s, const char *text, struct cay_error *err)
{
	const char *at = strchr(text, '@');
	char *name = at ? strndup(text, (size_t)(at - text)) : strdup(text);

	if (!name)
		return no_memory(err);
	s->language = language_find(name);
	if (!s->language) {
		(void)unknown_language(name, err);
		free(name);
		return -1;
	}
	free(name);
	free(s->version);
	s->version = NULL;
	if (at && !at[1])
		return cay_fail(err, CAY_E_INVALID, 0, "a version is missing in '%s'", text);
	if (at) {
		s->version = strdup(at + 1);
		if (!s->version)
			return no_memory(err);
	}
	return 0;
}

int spec_set_limit(struct spec *s, const char *name, const char *text, struct cay_error *err)
{
	return limit_parse(&s->limits, name, text, err);
}

static const char *const mode_names[MODES] = {
	[MODE_UNSAID] = "",
	[MODE_OFF] = "off",
	[MODE_SELECTIVE] = "selective",
	[MODE_ALL] = "all",
};

const char *mode_name(enum mode m)
{
	return mode_names[m];
}

enum mode mode_find(const char *name)
{
	for (int m = MODE_OFF; m < MODES; m++)
		if (strcmp(name, mode_names[m]) == 0)
			return (enum mode)m;
	return MODE_UNSAID;
}

static const char *const engine_names[ENGINES] = {
	[ENGINE_AUTO] = "auto",     [ENGINE_NATIVE] = "native", [ENGINE_DOCKER] = "docker",
	[ENGINE_PODMAN] = "podman", [ENGINE_DIRECT] = "direct",
};

const char *spec_engine_name(enum spec_engine e)
{
	return engine_names[e];
}

bool spec_engine_is_container(enum spec_engine e)
{
	return e == ENGINE_DOCKER || e == ENGINE_PODMAN;
}

enum spec_engine spec_engine_find(const char *name)
{
	int e = ENGINE_AUTO;

	while (e < ENGINES && strcmp(name, engine_names[e]) != 0)
		e++;
	return (enum spec_engine)e;
}

static int no_engine(const char *text, struct cay_error *err)
{
	_cleanup_(buf_done) struct buf names = BUF(128);

	for (int e = ENGINE_AUTO; e < ENGINES; e++)
		if (buf_printf(&names, "%s%s", e == ENGINE_AUTO ? "" : ", ", engine_names[e]) < 0)
			return no_memory(err);
	(void)cay_fail(err, CAY_E_INVALID, 0, "no engine is called '%.64s'", text);
	return cay_hint(err, "engines are %s", buf_str(&names));
}

int spec_set_engine(struct spec *s, const char *text, struct cay_error *err)
{
	enum spec_engine e = spec_engine_find(text);

	if (e == ENGINES)
		return no_engine(text, err);
	s->engine = e;
	return 0;
}

int spec_set_mode(struct spec *s, const char *text, struct cay_error *err)
{
	enum mode m = mode_find(text);

	if (m == MODE_UNSAID) {
		(void)cay_fail(err, CAY_E_INVALID, 0, "'%.64s' is no mode", text);
		return cay_hint(err, "it is one of all, selective, off");
	}
	s->mode = m;
	return 0;
}

int spec_set_image(struct spec *s, const char *text, struct cay_error *err)
{
	size_t len = strlen(text);

	if (len == 0 || len > IMAGE_TEXT_MAX) {
		(void)cay_fail(err, CAY_E_INVALID, 0, "'%.64s' names no image", text);
		return cay_hint(err,
				"a name such as python:3.12-slim, or an id of `cay image list`");
	}
	free(s->image);
	s->image = strdup(text);
	return s->image ? 0 : no_memory(err);
}

int spec_set_user(struct spec *s, const char *text, struct cay_error *err)
{
	if (strcmp(text, "root") != 0 && strcmp(text, "cay") != 0) {
		(void)cay_fail(err, CAY_E_INVALID, 0, "the user can't be '%.64s'", text);
		return cay_hint(err, "root, or leave it out: the image's own user, or cay");
	}
	s->as_root = strcmp(text, "root") == 0;
	return 0;
}

int spec_set_workdir(struct spec *s, const char *path, struct cay_error *err)
{
	free(s->workdir);
	/* A relative one counts from the workspace, as a shell there would. */
	if (path[0] == '/')
		s->workdir = strdup(path);
	else if (asprintf(&s->workdir, "%s/%s", ISLAND_WORKSPACE, path) < 0)
		s->workdir = NULL;
	if (!s->workdir)
		return no_memory(err);
	if (!island_workdir_ok(s->workdir)) {
		(void)cay_fail(err, CAY_E_INVALID, 0, "'%s' can't be a working directory", path);
		return cay_hint(err,
				"a path on the island, not in /proc, without '.' and '..' in it");
	}
	return 0;
}
