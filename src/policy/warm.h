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
#define WARM_LIVE      "science" /* of a sandbox that is for a language */

/*
 * With less memory a sandbox is not borne. Its PID 1 is an interpreter then, whose size the kernel
 * takes into account when memory runs out: programs are to be worth more to it (orders.c), and what
 * they are worth goes by the limit.
 */
#define WARM_LIVE_MEMORY (256ull << 20)

/* The names of all sets: those of the settings, then ours. 0 or -errno. */
int warm_sets(const struct settings *s, struct strv *ret);

/* The modules of a set, "json,re,math", up to the end of the line; NULL: there is no such set. */
const char *warm_modules(const struct settings *s, const char *set);

/*
 * The set that would serve this program best, or a sandbox's programs; false: it has to be started
 * cold. Nothing is decided by it but how fast it begins. env: all of its environment.
 */
bool warm_choose(const struct spec *spec, const struct settings *s, const struct runtime *runtime,
		 const struct image *image, const struct strv *env, char ret[WARM_NAME_SIZE]);

/* Whether this runtime can be started ahead of time. */
bool warm_can(const struct runtime *runtime);
