#include "policy/warm.h"

#include "base/attr.h"
#include "spec/version.h"

#include <stdio.h>
#include <string.h>

/*
 * What agents' programs import, as far as it leaves nothing behind that a program could notice: not
 * multiprocessing, which makes a secret for its children when it is loaded.
 */
#define DEFAULT_MODULES                                                                          \
	"json,re,collections,itertools,functools,math,datetime,random,os,sys,pathlib,typing,"    \
	"dataclasses,subprocess,csv,io,time,string,statistics,decimal,fractions,argparse,"       \
	"logging,urllib.parse,urllib.request,hashlib,base64,uuid,tempfile,shutil,glob,textwrap," \
	"traceback"

static const struct {
	const char *name, *modules;
} own_sets[] = {
	{"science", DEFAULT_MODULES ",numpy,pandas,matplotlib,matplotlib.pyplot"},
	{WARM_DEFAULT, DEFAULT_MODULES},
};

/* "NAME=MODULE,MODULE" of the settings, by its name. */
static const char *find_set(const struct settings *s, const char *name, size_t len)
{
	for (size_t i = 0; i < s->warm_sets.len; i++) {
		const char *item = s->warm_sets.items[i];

		if (strncmp(item, name, len) == 0 && item[len] == '=')
			return item + len + 1;
	}
	return NULL;
}

int warm_sets(const struct settings *s, struct strv *ret)
{
	int r = 0;

	for (size_t i = 0; i < s->warm_sets.len && r == 0; i++)
		r = strv_addf(ret, "%.*s", (int)strcspn(s->warm_sets.items[i], "="),
			      s->warm_sets.items[i]);
	for (size_t i = 0; i < ARRAY_LEN(own_sets) && r == 0; i++)
		if (!find_set(s, own_sets[i].name, strlen(own_sets[i].name)))
			r = strv_add(ret, own_sets[i].name);
	return r;
}

const char *warm_modules(const struct settings *s, const char *set)
{
	const char *modules = find_set(s, set, strlen(set));

	for (size_t i = 0; i < ARRAY_LEN(own_sets) && !modules; i++)
		if (strcmp(own_sets[i].name, set) == 0)
			modules = own_sets[i].modules;
	return modules;
}

/* Whether the first name of a dotted one in text is among the modules. */
static bool has_top(const char *modules, const char *text, size_t len)
{
	while (*modules) {
		size_t n = strcspn(modules, ",");

		if (strcspn(modules, ".,") == len && strncmp(modules, text, len) == 0)
			return true;
		modules += n + (modules[n] == ',');
	}
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
	const char *text = spec->code, *end = spec->code + spec->code_len;

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

/* The modules that this set has and the default one has not. */
static bool suits(const struct settings *s, const struct spec *spec, const char *set)
{
	const char *modules = warm_modules(s, set), *usual = warm_modules(s, WARM_DEFAULT);

	while (*modules) {
		char one[256];
		size_t n = strcspn(modules, ",");

		if (n < sizeof(one) && !has_top(usual, modules, strcspn(modules, ".,"))) {
			memcpy(one, modules, n);
			one[n] = '\0';
			if (code_imports(spec, one))
				return true;
		}
		modules += n + (modules[n] == ',');
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
		"NUMPY",  "LOCPATH", "NLSPATH",  "GCONV_PATH",
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
	return runtime->language->warm && version_compare(runtime->version, "3.10") >= 0 &&
	       version_compare(runtime->version, "3.14") < 0;
}

bool warm_choose(const struct spec *spec, const struct settings *s, const struct runtime *runtime,
		 const struct image *image, const struct strv *env, char ret[WARM_NAME_SIZE])
{
	_cleanup_(strv_done) struct strv sets = {0};
	const char *set = WARM_DEFAULT;

	if (!s->warm_enabled || spec->cold || !runtime || image || !warm_can(runtime) ||
	    spec->as_root || spec->engine == ENGINE_DIRECT || spec->n_mounts > 0 ||
	    spec->workspace.source || spec->kept || !env_is_usual(env) || warm_sets(s, &sets) < 0)
		return false;
	for (size_t i = 0; i < sets.len; i++)
		if (suits(s, spec, sets.items[i])) {
			set = sets.items[i];
			break;
		}
	(void)snprintf(ret, WARM_NAME_SIZE, "%s", set);
	return true;
}
