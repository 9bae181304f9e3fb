/*
 * choose.h: what a program runs on: which image, and which interpreter. In this order: the image
 * that was asked for, whatever it has; what the settings name for the language; a default image
 * of the language that is in the store; the host's own.
 */
#pragma once

#include "core/error.h"
#include "image/ref.h"
#include "settings/settings.h"
#include "spec/image.h"
#include "spec/runtime.h"
#include "spec/spec.h"

struct image_choice {
	struct image *image;       /* NULL: the host's own */
	char name[IMAGE_REF_SIZE]; /* what it goes by: a reference in full, an id, IMAGE_HOST */
};

/*
 * All three: CAY_E_IMAGE where the image that was asked for is not in the store, CAY_E_RUNTIME
 * where it has no such language or version, CAY_E_POLICY where operator or key do not let it be
 * used. The caller has *ret to image_choice_done(), also after a failure.
 */

/* For a spec whose language is decided; *ret_runtime is not touched for SPEC_ARGV. */
int image_choose(const struct settings *s, const struct spec *spec, struct image_choice *ret,
		 struct runtime *ret_runtime, struct cay_error *err);

/* The image alone, by its name: for a sandbox, which has many programs or none. */
int image_choose_named(const struct settings *s, const struct spec *spec, struct image_choice *ret,
		       struct cay_error *err);

/* The interpreter alone, in what stands already; image: NULL is the host's own. */
int image_choose_runtime(const struct settings *s, const struct spec *spec,
			 const struct image *image, const char *name, struct runtime *ret,
			 struct cay_error *err);

void image_choice_done(struct image_choice *c);
