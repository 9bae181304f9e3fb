/*
 * glob.h: which paths a pattern of --get means. Pure. Paths are relative, without
 * ".", ".." and empty parts; a glob of NULL means everything.
 *
 * A glob goes part by part: "*" stays within one, "**" is any number of parts;
 * neither stands for hidden names. A directory's name means all that is in it.
 */
#pragma once

#include <stdbool.h>

/* A glob of more parts, with a run of "**" as one, matches nothing but itself. */
#define GLOB_PARTS_MAX 136

/* Whether the file is meant. */
bool glob_matches(const char *glob, const char *path);

/* Whether a directory may hold something that is: others need not be walked. */
bool glob_may_match_below(const char *glob, const char *dir);
