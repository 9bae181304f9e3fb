#include "engine/mountinfo.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* A number, and the sign that must follow it. */
static bool take_number(const char **at, char end, unsigned *ret)
{
	const char *p = *at;
	unsigned v = 0;

	for (; *p >= '0' && *p <= '9'; p++)
		if (__builtin_mul_overflow(v, 10u, &v) ||
		    __builtin_add_overflow(v, (unsigned)(*p - '0'), &v))
			return false;
	if (p == *at || *p != end)
		return false;
	*at = p + 1;
	*ret = v;
	return true;
}

static bool is_octal(char c)
{
	return c >= '0' && c <= '7';
}

/* One character of a path; returns how many stand for it. */
static size_t read_char(const char *p, char *ret)
{
	if (p[0] == '\\' && p[1] >= '0' && p[1] <= '3' && is_octal(p[2]) && is_octal(p[3])) {
		*ret = (char)((p[1] - '0') << 6 | (p[2] - '0') << 3 | (p[3] - '0'));
		return 4;
	}
	*ret = *p;
	return 1;
}

static bool take_path(const char **at, char ret[PATH_MAX])
{
	const char *p = *at;
	size_t len = 0;

	while (*p && *p != ' ' && *p != '\n') {
		if (len + 1 >= PATH_MAX)
			return false;
		p += read_char(p, &ret[len]);
		if (ret[len++] == '\0')
			return false;
	}
	if (len == 0 || *p != ' ')
		return false;
	ret[len] = '\0';
	*at = p + 1;
	return true;
}

int mountinfo_next(const char **text, struct mount_line *ret)
{
	const char *p = *text;
	unsigned parent;

	if (!*p)
		return 0;
	if (!take_number(&p, ' ', &ret->id) || !take_number(&p, ' ', &parent) ||
	    !take_number(&p, ':', &ret->major) || !take_number(&p, ' ', &ret->minor) ||
	    !take_path(&p, ret->root) || !take_path(&p, ret->point))
		return -EINVAL;
	p += strcspn(p, "\n");
	*text = p + (*p == '\n');
	return 1;
}
