/*
 * cgroup_find.h: where on this machine cgroups can be made: cgroups_init() of
 * cgroup.h, and what of it is of use elsewhere.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* An fd of a directory, or -1 and errno. */
int cgroup_open_dir(int at, const char *path);

/*
 * Our own cgroup in the hierarchy that has the controller ("" is the v2 one),
 * out of /proc/self/cgroup's lines "4:memory:/a/b" and "0::/a/b".
 */
bool cgroup_own_path(const char *text, const char *controller, char *path, size_t size);
