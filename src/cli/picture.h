/*
 * picture.h: pictures in a terminal, by the protocols of kitty and iTerm2, or as files.
 */
#pragma once

#include "base/buf.h"
#include "core/error.h"

#include <stdbool.h>

struct picture_type {
	const char *mime;
	const char *extension;
	bool is_text;      /* as it is; else in base64 */
	bool kitty, iterm; /* who shows it */
};

extern const struct picture_type picture_types[];
extern const size_t n_picture_types;

/*
 * Appends what makes the terminal at stdout show it. 0; 1: it can't show such a thing, or is
 * none; -errno. The bytes are foreign: only their base64 gets there, made here.
 */
int picture_append(struct buf *out, const struct picture_type *type, const void *data, size_t len);

/* Writes it to a new file, cay-N.EXTENSION, of the current directory. */
int picture_save(const struct picture_type *type, const void *data, size_t len, char ret_name[32],
		 struct cay_error *err);
