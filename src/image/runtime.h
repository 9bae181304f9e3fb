/*
 * runtime.h: which interpreter a run gets. Nothing here executes a program:
 * versions come from file names and from the bytes of the program and of files
 * beside it, and are cached by the program's device, inode, mtime and size.
 */
#pragma once

#include "core/error.h"
#include "settings/settings.h"
#include "spec/runtime.h"

#include <limits.h>
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
 * or has nothing in it is CAY_E_INVALID. images: the directory of the store; NULL: no images.
 */
int runtimes_find(const struct settings *s, const struct language *language, const char *images,
		  struct runtimes *ret, struct cay_error *err);

/* A new one at the end, of which nothing is known but the language; NULL on failure. */
struct runtime *runtimes_add(struct runtimes *r, const struct language *language,
			     struct cay_error *err);

/* Where to look, for those who look elsewhere (tests). */
struct runtime_places {
	const char *const *host_dirs; /* ends with a NULL; an earlier one wins */
	const char *host_root; /* what an island sees of the host: links out of it do not work */
	const char *usr;       /* its /usr, where that is not host_root itself; or NULL */
	const char *images;    /* the directory of the store; NULL: no images */
	const char *cache_dir; /* NULL: no cache */
	bool whole;            /* an island sees all there is: an image, which is our root then */
};

/* Those of this machine; cache is memory that they borrow. */
struct runtime_places runtime_places(const char *images, char cache[PATH_MAX]);

int runtimes_find_in(const struct runtime_places *places, const struct settings *s,
		     const struct language *language, struct runtimes *ret, struct cay_error *err);
