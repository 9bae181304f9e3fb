#include "session/glob.h"

#include "base/attr.h"

#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

/* One part of a path against one part of a glob. */
static bool part_matches(const char *glob, size_t glob_len, const char *path, size_t len)
{
	char g[NAME_MAX + 1], p[NAME_MAX + 1];

	if (glob_len > NAME_MAX || len > NAME_MAX)
		return false;
	(void)snprintf(g, sizeof(g), "%.*s", (int)glob_len, glob);
	(void)snprintf(p, sizeof(p), "%.*s", (int)len, path);
	return fnmatch(g, p, FNM_PERIOD) == 0;
}

enum match { MATCH_NO, MATCH_ABOVE, MATCH_YES };

/*
 * Part by part; "**" is any number of parts that are not hidden. MATCH_ABOVE: the
 * path ends where the glob goes on, so what matches may lie below it.
 */
static enum match match_parts(const char *glob, const char *path)
{
	size_t g = strcspn(glob, "/"), p = strcspn(path, "/");
	const char *more_glob = glob + g + (glob[g] == '/');
	const char *more_path = path + p + (path[p] == '/');

	if (p == 0)
		return g == 0 ? MATCH_YES : MATCH_ABOVE;
	if (g == 0)
		return MATCH_NO;
	if (g == 2 && glob[0] == '*' && glob[1] == '*') {
		enum match here = *more_glob ? match_parts(more_glob, path) : MATCH_NO;

		if (here == MATCH_YES || path[0] == '.')
			return here;
		if (!*more_path)
			return *more_glob ? MATCH_ABOVE : MATCH_YES;
		return match_parts(glob, more_path);
	}
	if (!part_matches(glob, g, path, p))
		return MATCH_NO;
	return match_parts(more_glob, more_path);
}

/* The file itself, by name or by glob; or the name of a directory, which stands for all in it. */
bool glob_matches(const char *glob, const char *path)
{
	size_t len;

	if (!glob || strcmp(glob, path) == 0)
		return true;
	len = strlen(glob);
	while (len > 0 && glob[len - 1] == '/')
		len--;
	if (strncmp(glob, path, len) == 0 && path[len] == '/')
		return true;
	return match_parts(glob, path) == MATCH_YES;
}

/* Whether a directory may hold something that matches: others are not walked at all. */
bool glob_may_match_below(const char *glob, const char *dir)
{
	size_t len = strlen(dir);
	enum match m;

	if (glob_matches(glob, dir) || (strncmp(glob, dir, len) == 0 && glob[len] == '/'))
		return true;
	m = match_parts(glob, dir);
	return m == MATCH_ABOVE || (m == MATCH_YES && strstr(glob, "**"));
}
