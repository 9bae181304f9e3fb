#include "base/glob.h"

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

struct part {
	const char *text;
	size_t len;
};

static bool is_any(const struct part *p)
{
	return p->len == 2 && p->text[0] == '*' && p->text[1] == '*';
}

/* The parts of a glob, with a run of "**" as one; 0 if there are too many. */
static size_t cut(const char *glob, struct part parts[GLOB_PARTS_MAX])
{
	size_t n = 0;

	while (*glob) {
		struct part p = {glob, strcspn(glob, "/")};

		glob += p.len + (glob[p.len] == '/');
		if (n > 0 && is_any(&p) && is_any(&parts[n - 1]))
			continue;
		if (n == GLOB_PARTS_MAX)
			return 0;
		parts[n++] = p;
	}
	return n;
}

/* "**" may be no part at all, but for one at the end: "a/" and all below it, not a. */
static void skip_any(bool open[GLOB_PARTS_MAX + 1], const struct part *parts, size_t n)
{
	for (size_t i = 0; i + 1 < n; i++)
		if (open[i] && is_any(&parts[i]))
			open[i + 1] = true;
}

/*
 * Part by part: open[i] says that what was seen of the path can be the first i
 * parts of the glob. All ways are followed at once, because trying one after the
 * other takes a time that grows with the power of the number of "**".
 *
 * MATCH_ABOVE: the path ends where the glob goes on, so what matches may lie below it.
 */
static enum match match_parts(const char *glob, const char *path)
{
	struct part parts[GLOB_PARTS_MAX];
	bool open[GLOB_PARTS_MAX + 1] = {true};
	size_t n = cut(glob, parts);

	for (size_t len; *path; path += len + (path[len] == '/')) {
		bool next[GLOB_PARTS_MAX + 1] = {false};

		len = strcspn(path, "/");
		skip_any(open, parts, n);
		for (size_t i = 0; i < n; i++) {
			if (!open[i])
				continue;
			if (!is_any(&parts[i]))
				next[i + 1] |= part_matches(parts[i].text, parts[i].len, path, len);
			else if (path[0] != '.')
				next[i] = next[i + (i + 1 == n)] = true;
		}
		memcpy(open, next, sizeof(open));
	}
	return open[n] ? MATCH_YES : memchr(open, 1, n) ? MATCH_ABOVE : MATCH_NO;
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
