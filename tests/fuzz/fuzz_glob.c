/* A glob and a path, one a line: against a matcher that is slow, plain and obviously right. */
#include "fuzz.h"

#include "base/glob.h"
#include "cli/files.h"

#include <fnmatch.h>

/* How many steps the plain one may take before it is asked no further. */
#define STEPS_MAX 20000

struct plain {
	char *glob[16], *path[16];
	size_t n_glob, n_path;
	long steps;
};

/* Whether the parts from p on are what those from g on say. */
static bool matches(struct plain *m, size_t g, size_t p)
{
	if (++m->steps > STEPS_MAX)
		return false;
	if (g == m->n_glob)
		return p == m->n_path;
	if (strcmp(m->glob[g], "**") != 0)
		return p < m->n_path && fnmatch(m->glob[g], m->path[p], FNM_PERIOD) == 0 &&
		       matches(m, g + 1, p + 1);
	/* At the end it must be something: "a/" and all below it, but not a. */
	if (g + 1 < m->n_glob && matches(m, g + 1, p))
		return true;
	if (p == m->n_path || m->path[p][0] == '.')
		return false;
	return (g + 1 == m->n_glob && p + 1 == m->n_path) || matches(m, g, p + 1);
}

/* Cuts text at its slashes; 0 where that is none that we mean: empty parts, dots, too many. */
static size_t cut(char *text, char *parts[16])
{
	size_t n = 0;

	for (char *part; (part = strsep(&text, "/")); parts[n++] = part)
		if (n == 16 || !*part || strcmp(part, ".") == 0 || strcmp(part, "..") == 0 ||
		    strlen(part) > 255)
			return 0;
	return n;
}

/* Whether the glob names the path or a directory above it, letter by letter. */
static bool names(const char *glob, const char *path)
{
	size_t n = strlen(glob);

	return strncmp(glob, path, n) == 0 && (!path[n] || path[n] == '/');
}

static void check_match(const char *glob, const char *path)
{
	_cleanup_(freep) char *g = strdup(glob);
	_cleanup_(freep) char *p = strdup(path);
	_cleanup_(freep) char *dir = strdup(path);
	struct plain m = {0};
	bool got = glob_matches(glob, path), expected;
	char *slash;

	CHECK(g && p && dir);
	m.n_glob = cut(g, m.glob);
	m.n_path = cut(p, m.path);
	if (m.n_glob == 0 || m.n_path == 0)
		return;
	expected = names(glob, path) || matches(&m, 0, 0);
	if (m.steps > STEPS_MAX)
		return;
	CHECK(got == expected);
	/* Nothing that is meant lies below a directory that is not walked. */
	while (got && (slash = strrchr(dir, '/'))) {
		*slash = '\0';
		CHECK(glob_may_match_below(glob, dir));
	}
}

/* What a path of --put or --get may name at all. */
static void check_path(const char *path)
{
	struct cay_error err = {0};

	if (files_check_path(path, &err) < 0)
		CHECK(err.code == CAY_E_INVALID && path[0] == '/');
	else
		CHECK(path[0] != '/' || names("/workspace", path) || names("/tmp", path));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = INPUT(data, size);
	_cleanup_(freep) char *glob = input_line(&in);
	_cleanup_(freep) char *path = input_line(&in);

	CHECK(glob_matches(NULL, path) && glob_may_match_below(NULL, path));
	check_path(glob);
	check_match(glob, path);
	return 0;
}
