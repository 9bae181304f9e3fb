/*
 * choose_container.h: what a program runs on in a container: the image that was named, or its
 * language's usual one; and what its interpreter is called there. What the image really has, only
 * the engine knows.
 */
#pragma once

#include "core/error.h"
#include "image/ref.h"
#include "settings/settings.h"
#include "spec/runtime.h"
#include "spec/spec.h"

/* Where no language says which. */
#define CONTAINER_IMAGE "debian:12-slim"

/*
 * For a spec whose language is decided; *ret_runtime is not touched for SPEC_ARGV. CAY_E_POLICY
 * where operator or key do not let the image be used, CAY_E_RUNTIME for a version that can't be
 * told, CAY_E_UNSUPPORTED for the host's own /usr.
 */
int container_choose(const struct settings *s, const struct spec *spec,
		     char ret_image[IMAGE_REF_SIZE], struct runtime *ret_runtime,
		     struct cay_error *err);
