/*
 * mountinfo.h: the lines of /proc/self/mountinfo: "36 35 98:0 /root/of/mount
 * /mount/point options …".
 */
#pragma once

#include <limits.h>

struct mount_line {
	unsigned id, major, minor;
	char root[PATH_MAX], point[PATH_MAX]; /* octal escapes undone */
};

/*
 * Takes the line at *text and moves on to the next one. 1: here it is. 0: there
 * are no more. -EINVAL: it is not one; rules that go by the list can't be kept then.
 */
int mountinfo_next(const char **text, struct mount_line *ret);
