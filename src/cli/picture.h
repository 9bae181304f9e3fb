/*
 * picture.h: pictures in a terminal, by the protocols of kitty and iTerm2 or as sixels, or as
 * files.
 */
#pragma once

#include "base/buf.h"
#include "cli/screen.h"
#include "core/error.h"

#include <stdbool.h>

#define PICTURE_TYPES          4
#define PICTURE_BEGINNINGS_MAX 4

struct picture_type {
	const char *mime;
	const char *extension;
	const char *begins[PICTURE_BEGINNINGS_MAX]; /* with one of these */
	const char *has;                            /* and this somewhere; NULL */
	bool is_text;                               /* as it is; else in base64 */
	bool kitty, iterm, sixel;                   /* who shows it */
};

extern const struct picture_type picture_types[PICTURE_TYPES];

/*
 * Whether the bytes are of that type, by how they begin: decoders go by that, and not by what
 * somebody says they are.
 */
bool picture_is(const struct picture_type *type, const void *data, size_t len);

/*
 * Appends what makes the terminal at stdout show it. 0; 1: it can't show such a thing, or is
 * none; -errno. The bytes are foreign: only their base64 gets there, made here, or sixels. Whether
 * it shows those is asked by the screen; NULL: not.
 */
int picture_append(struct buf *out, const struct picture_type *type, const void *data, size_t len,
		   struct screen *screen);

/* picture_sixel.c: a PNG, on such a screen. As picture_append(); 1: also what can't be decoded. */
int picture_sixel(struct buf *out, const struct screen *s, const void *data, size_t len);

/* Writes it to a new file, cay-N.EXTENSION, of the directory (or AT_FDCWD). */
int picture_save(int dir_fd, const struct picture_type *type, const void *data, size_t len,
		 char ret_name[32], struct cay_error *err);
