/*
 * runtime_choose.h: which of the interpreters that there are a run gets.
 */
#pragma once

#include "image/runtime.h"
#include "spec/image.h"

/* Puts them in order, newest first, and marks the one for requests without a version. */
void runtimes_order(struct runtimes *r, const struct language *language, const struct settings *s);

/*
 * The one for a request. version is NULL, or a prefix on dots: "3", "3.12", "3.12.1". Of those
 * that it means, settings' come before the store's images, and those before the host's; of one
 * source the newest. Not there, or without the tool it needs: CAY_E_RUNTIME, naming those that
 * are, with a hint how to get it. No version at all ("latest"): CAY_E_INVALID.
 *
 * images: the directory of the store, or NULL: no images.
 */
int runtime_choose(const struct settings *s, const struct language *language, const char *version,
		   const char *images, struct runtime *ret, struct cay_error *err);

/* The same of one image, which goes by this name. */
int runtime_choose_of(const struct image *image, const char *name, const struct settings *s,
		      const struct language *language, const char *version, struct runtime *ret,
		      struct cay_error *err);

/* For those who look elsewhere (tests). */
int runtime_choose_in(const struct runtime_places *places, const struct settings *s,
		      const struct language *language, const char *version, struct runtime *ret,
		      struct cay_error *err);
