/*
 * runtime_images.h: interpreters in images of the store, from their records: nothing is looked
 * for, and no image opened.
 */
#pragma once

#include "image/runtime.h"
#include "spec/image.h"

/* All of one language in an image, which goes by this name; appended. */
int runtime_images_in(const struct image *image, const char *name, const char *source,
		      const struct language *language, struct runtimes *ret, struct cay_error *err);

/*
 * Of the images that the settings name for the language, or the one it runs on. One that is
 * not in the store is CAY_E_IMAGE; one that may not be used is passed over.
 */
int runtime_images_named(const char *dir, const struct settings *s, const struct language *language,
			 struct runtimes *ret, struct cay_error *err);

/* Of those in the store that are the language's default images (language->image). */
int runtime_images_default(const char *dir, const struct settings *s,
			   const struct language *language, struct runtimes *ret,
			   struct cay_error *err);

/* The default image of a version, as people write it; "": the language has none, or none that has
 * its tool. */
#define RUNTIME_IMAGE_SIZE 128
void runtime_image_name(const struct language *language, const char *version,
			char ret[RUNTIME_IMAGE_SIZE]);
