#include "policy/warm.h"

#include "base/attr.h"
#include "policy/plan.h"
#include "spec/version.h"

#include <stdio.h>
#include <string.h>

/*
 * Our own: a line "NAME=MODULE,MODULE" each, the one that serves whatever no other does last. Every
 * page and mapping of an interpreter costs its clones time, so a program gets the smallest that has
 * what it imports. Left out is what would show: multiprocessing makes a secret when it is loaded.
 */
static const char own_sets[] = {
#include "warm-sets.h"
	0};

static const char *next_line(const char *line)
{
	return line + strcspn(line, "\n") + 1;
}

static bool is_named(const char *item, const char *name)
{
	size_t len = strlen(name);

	return strncmp(item, name, len) == 0 && item[len] == '=';
}

static const char *in_settings(const struct settings *s, const char *name)
{
	for (size_t i = 0; i < s->warm_sets.len; i++)
		if (is_named(s->warm_sets.items[i], name))
			return s->warm_sets.items[i] + strlen(name) + 1;
	return NULL;
}

static const char *in_own(const char *name)
{
	for (const char *line = own_sets; *line; line = next_line(line))
		if (is_named(line, name))
			return line + strlen(name) + 1;
	return NULL;
}

static int add_name(struct strv *ret, const char *item, const char *(*unless_in)(const char *))
{
	char name[WARM_NAME_SIZE] = "";

	memcpy(name, item, size_min(strcspn(item, "="), sizeof(name) - 1));
	return unless_in && unless_in(name) ? 0 : strv_add(ret, name);
}

int warm_sets(const struct settings *s, struct strv *ret)
{
	int r = 0;

	for (size_t i = 0; i < s->warm_sets.len && r == 0; i++)
		r = add_name(ret, s->warm_sets.items[i], in_own);
	for (const char *line = own_sets; *line && r == 0; line = next_line(line))
		r = add_name(ret, line, NULL);
	return r;
}

const char *warm_modules(const struct settings *s, const char *set)
{
	const char *modules = in_settings(s, set);

	return modules ? modules : in_own(set);
}

/* The name of the module there, up to the next; "" at the end of a set. */
static size_t module_len(const char *modules)
{
	return strcspn(modules, ",\n");
}

static const char *next_module(const char *modules)
{
	size_t n = module_len(modules);

	return modules + n + (modules[n] == ',');
}

/* Whether the first name of a dotted one in text is among the modules. */
static bool has_top(const char *modules, const char *text, size_t len)
{
	for (; module_len(modules) > 0; modules = next_module(modules))
		if (strcspn(modules, ".,\n") == len && strncmp(modules, text, len) == 0)
			return true;
	return false;
}

static bool is_name(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '_';
}

static size_t name_len(const char *text, const char *end)
{
	size_t n = 0;

	while (text + n < end && is_name(text[n]))
		n++;
	return n;
}

static const char *skip_blank(const char *text, const char *end)
{
	while (text < end && (*text == ' ' || *text == '\t'))
		text++;
	return text;
}

/*
 * Whether a statement, "import a.b as c, d" or "from a import b", is about one of them. What only
 * looks like one, in a string, costs nothing but time.
 */
static bool statement_imports(const char *text, const char *end, const char *modules)
{
	size_t n;

	text = skip_blank(text, end);
	n = name_len(text, end);
	if (n == 4 && strncmp(text, "from", 4) == 0) {
		text = skip_blank(text + n, end);
		return has_top(modules, text, name_len(text, end));
	}
	if (n != 6 || strncmp(text, "import", 6) != 0)
		return false;
	for (text += n; text < end; text++) {
		text = skip_blank(text, end);
		if (has_top(modules, text, name_len(text, end)))
			return true;
		text = memchr(text, ',', (size_t)(end - text));
		if (!text)
			return false;
	}
	return false;
}

static bool code_imports(const struct spec *spec, const char *modules)
{
	const char *text = spec->cell ? spec->cell : spec->code;
	const char *end = text + (spec->cell ? spec->cell_len : spec->code_len);

	while (text && text < end) {
		const char *stop = text;

		while (stop < end && *stop != '\n' && *stop != ';')
			stop++;
		if (statement_imports(text, stop, modules))
			return true;
		text = stop + 1;
	}
	return false;
}

/* Whether a set behind the nth has it: those come the smaller the later. */
static bool is_in_later(const struct settings *s, const struct strv *sets, size_t n,
			const char *module, size_t len)
{
	for (size_t i = n + 1; i < sets->len; i++)
		if (has_top(warm_modules(s, sets->items[i]), module, len))
			return true;
	return false;
}

/* Whether it imports one that the nth set has and none behind it. */
static bool suits(const struct settings *s, const struct spec *spec, const struct strv *sets,
		  size_t n)
{
	for (const char *m = warm_modules(s, sets->items[n]); module_len(m) > 0;
	     m = next_module(m)) {
		char one[256];
		size_t top = strcspn(m, ".,\n");

		if (top >= sizeof(one) || is_in_later(s, sets, n, m, top))
			continue;
		memcpy(one, m, top);
		one[top] = '\0';
		if (code_imports(spec, one))
			return true;
	}
	return false;
}

/* What an interpreter, or a library that it has loaded, read when it was started. */
static bool is_read_at_start(const char *variable)
{
	static const char *const names[] = {
		"PYTHON", "LD_",     "LC_",      "LANG=",      "LANGUAGE", "MALLOC_", "GLIBC_",
		"TZ",     "MPL",     "OPENBLAS", "OMP_",       "MKL_",     "NUMEXPR", "BLIS_",
		"VECLIB", "GOTO",    "KMP_",     "OPENSSL",    "SSL_",     "PANDAS",  "NPY_",
		"NUMPY",  "LOCPATH", "NLSPATH",  "GCONV_PATH", "NODE_",    "UV_",     "ICU_",
	};

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (strncmp(variable, names[i], strlen(names[i])) == 0)
			return true;
	return false;
}

static bool env_is_usual(const struct strv *env)
{
	for (size_t i = 0; i < env->len; i++)
		if (is_read_at_start(env->items[i]) && strcmp(env->items[i], "LANG=C.UTF-8") != 0)
			return false;
	return true;
}

bool warm_can(const struct runtime *runtime)
{
	const struct language *l = runtime->language;

	return l->warm.since && version_compare(runtime->version, l->warm.since) >= 0 &&
	       version_compare(runtime->version, l->warm.before) < 0;
}

/* On a live island programs are as warm as that is. */
static bool is_of_island(const struct plan *island, const struct runtime *runtime)
{
	return runtime && plan_warm(island) &&
	       strcmp(plan_first(island, island->argv), runtime->program) == 0;
}

/* The first that suits its code. */
static const char *choose_set(const struct spec *spec, const struct settings *s,
			      const struct strv *sets)
{
	for (size_t i = 0; i < sets->len; i++)
		if (suits(s, spec, sets, i))
			return sets->items[i];
	return WARM_DEFAULT;
}

bool warm_choose(const struct spec *spec, const struct settings *s, const struct runtime *runtime,
		 const struct image *image, const struct strv *env, char ret[WARM_NAME_SIZE])
{
	_cleanup_(strv_done) struct strv sets = {0};
	const char *set;

	if ((runtime && runtime->language->warm.set && image) ||
	    (spec->island && !is_of_island(spec->island, runtime)))
		return false;
	/* Which images are trusted is the launcher's to know. */
	if (!s->warm_enabled || spec->cold || !runtime || (image && s->warm_images.len == 0) ||
	    !warm_can(runtime) || spec->as_root || spec->writable ||
	    spec->engine == ENGINE_DIRECT || spec->n_mounts > 0 || spec->workspace.source ||
	    spec->kept || !env_is_usual(env) || warm_sets(s, &sets) < 0)
		return false;
	if (spec->island)
		set = plan_warm(spec->island);
	else if (runtime->language->warm.set)
		set = runtime->language->warm.set;
	else if (spec->live_runtime)
		set = spec->language ? WARM_LIVE : WARM_DEFAULT;
	else
		set = choose_set(spec, s, &sets);
	(void)snprintf(ret, WARM_NAME_SIZE, "%s", set);
	return true;
}
