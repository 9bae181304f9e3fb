/*
 * warm.h: which programs may be run by an interpreter that is started already, and what that one
 * has loaded.
 */
#pragma once

#include "base/strv.h"
#include "settings/settings.h"
#include "spec/image.h"
#include "spec/runtime.h"
#include "spec/spec.h"

#include <stdbool.h>

#define WARM_NAME_SIZE 33
#define WARM_DEFAULT   "default"

/* The names of all sets: those of the settings, then ours. 0 or -errno. */
int warm_sets(const struct settings *s, struct strv *ret);

/* The modules of a set, "json,re,math", up to the end of the line; NULL: there is no such set. */
const char *warm_modules(const struct settings *s, const char *set);

/*
 * The set that would serve this program best; false: it has to be started cold. Nothing is decided
 * by it but how fast it begins. env: all of its environment.
 */
bool warm_choose(const struct spec *spec, const struct settings *s, const struct runtime *runtime,
		 const struct image *image, const struct strv *env, char ret[WARM_NAME_SIZE]);

/* Whether this runtime can be started ahead of time. */
bool warm_can(const struct runtime *runtime);
