/*
 * images.h: the images there are, read: names and records of the store. What
 * writes there is a program of its own, cay-image (image/store.h).
 *
 *   names/ENCODED     an image's id and a newline; which one, the name says
 *   records/ID.json   struct image, as record.h writes it
 *
 * Both appear and change by rename, so nothing is locked to read them. Environments may have
 * secrets in them, so of root's store both are for root and the daemon's api alone, of others' for
 * nobody else: whoever may not read them has no images.
 */
#pragma once

#include "core/error.h"
#include "image/record.h"
#include "settings/settings.h"
#include "spec/image.h"

#include <limits.h>

#define IMAGES_MAX          4096
#define IMAGE_ID_PREFIX_MIN 12 /* digits of an id that may stand for it */

/* [images] store, or where it is when nobody says. 0, -ENOENT without a home, -ENAMETOOLONG. */
int images_dir(const struct settings *s, char path[PATH_MAX]);

/* Sees to it that only those read names/ and records/ who may; where they are ours. */
void images_guard(const char *dir);

/* The digits of an id or its beginning, perhaps behind "sha256:"; NULL: it is none. */
const char *image_id_prefix(const char *text);

/*
 * By a reference (a short one means what Docker takes it for), or by its id or the beginning
 * of that. Not there: CAY_E_IMAGE, with a hint how to get it; dir may be missing. image_free().
 */
int images_find(const char *dir, const char *name_or_id, struct image **ret, struct cay_error *err);

/*
 * One that can't be read, found in the same way: its id and the names that lead to it, and no more;
 * an id of "": what is damaged is the name. why is what images_find() said. -1: it is sound, or not
 * there, or the fault is not the store's; why stays as it is then.
 */
int images_find_damaged(const char *dir, const char *name_or_id, struct image **ret,
			const struct cay_error *why);

/* The error for one that is not there; also for those that somebody is not to know of. -1. */
int images_fail_missing(const char *name_or_id, struct cay_error *err);

/* By the whole id alone. CAY_E_NOT_FOUND: there is none; CAY_E_INTERNAL: its record is damaged. */
int images_get(const char *dir, const char *id, struct image **ret, struct cay_error *err);

/*
 * All of them, those without a name too, newest first; image_list_free(). Those whose records are
 * damaged are passed over, and to damaged (may be NULL) it is added what is wrong with each.
 */
int images_list(const char *dir, struct image ***ret, size_t *ret_n, struct strv *damaged,
		struct cay_error *err);
void image_list_free(struct image **list, size_t n);

/*
 * A reference in full as a file name, and back: '/' and all but letters, digits and "._:@-" as
 * %XX. -ENAMETOOLONG; -EINVAL for what no reference is written as.
 */
int images_encode(const char *reference, char name[NAME_MAX + 1]);
int images_decode(const char *name, char reference[NAME_MAX + 1]);

/* Appends the names of all images, written in full; 0 or -errno. No store: none. */
int images_names(const char *dir, struct strv *ret);
