/*
 * naming.h: what images are called, and which of them may be used. Pure.
 */
#pragma once

#include "core/error.h"
#include "image/ref.h"
#include "settings/settings.h"
#include "spec/image.h"

#include <stdbool.h>

/*
 * What a name that was asked for stands for: aliases of the settings are replaced, references
 * written in full; IMAGE_HOST and the beginning of an id stay as they are. CAY_E_INVALID.
 */
int image_name_resolve(const struct settings *s, const char *text, char ret[IMAGE_REF_SIZE],
		       struct cay_error *err);

/* As people write it: without Docker Hub's "docker.io/library/", if that means the same. */
void image_name_short(const char *reference, char ret[IMAGE_REF_SIZE]);

/*
 * Whether a glob of settings or bounds means a reference in full, however it is written. "*" is all
 * of them; one that begins with a registry is for that one's alone, and its '*' stands for slashes
 * too; any other is for short names on Docker Hub, and its '*' stands for none.
 */
bool image_name_matches(const char *glob, const char *reference);

/*
 * Whether the operator and the caller's key let it be used; CAY_E_POLICY names who does not.
 * name is one that image_name_resolve() made. image: what it leads to, for an id counts by its
 * names; NULL where it is not known, or the host's own.
 */
int image_may_use(const struct settings *s, const char *name, const struct image *image,
		  struct cay_error *err);
