/*
 * runtime.h: which interpreter a run gets. Nothing here executes a program:
 * versions come from file names and from the bytes of the program and of files
 * beside it, and are cached by the program's device, inode, mtime and size.
 */
#pragma once

#include "core/error.h"
#include "settings/settings.h"
#include "spec/runtime.h"

#include <stdbool.h>
#include <stddef.h>

#define RUNTIMES_MAX 64

struct runtimes {
	struct runtime *items; /* newest version first */
	size_t len;
};

void runtimes_done(struct runtimes *r);

/*
 * All that is there for one language, also what can't be used because it lacks
 * its tool. An empty list is no error. A directory of settings that is not there
 * or has nothing in it is CAY_E_INVALID.
 */
int runtimes_find(const struct settings *s, const struct language *language, struct runtimes *ret,
		  struct cay_error *err);

/*
 * The one for a request. version is NULL, or a prefix on dots: "3", "3.12",
 * "3.12.1". Not there, or without the tool it needs: CAY_E_RUNTIME, naming those
 * that are, with a hint how to get it. No version at all ("latest"): CAY_E_INVALID.
 */
int runtime_choose(const struct settings *s, const struct language *language, const char *version,
		   struct runtime *ret, struct cay_error *err);

/* Where to look, for those who look elsewhere (tests). */
struct runtime_places {
	const char *const *host_dirs; /* ends with a NULL; an earlier one wins */
	const char *host_root; /* what an island sees of the host: links out of it do not work */
	const char *cache_dir; /* NULL: no cache */
	bool whole;            /* an island sees all there is: an image, which is our root then */
};

int runtimes_find_in(const struct runtime_places *places, const struct settings *s,
		     const struct language *language, struct runtimes *ret, struct cay_error *err);
int runtime_choose_in(const struct runtime_places *places, const struct settings *s,
		      const struct language *language, const char *version, struct runtime *ret,
		      struct cay_error *err);
