/*
 * sixel.h: pictures as sixels, six rows of pixels at a time: what follows "ESC P q" and comes
 * before "ESC \", in printable ASCII. Made by cay-sixel (cli/cay-sixel.c), which has read a
 * stranger's picture by then; so whoever asked it for them looks at what came before a terminal
 * sees it.
 */
#pragma once

#include "base/buf.h"

#include <stdbool.h>
#include <stdint.h>

#define SIXEL_SIDE_MAX    4096u
#define SIXEL_COLOURS_MIN 2u
#define SIXEL_COLOURS_MAX 256u
#define SIXEL_BYTES_MAX   (8u << 20)

/* Of 8-bit red, green and blue, a row after the other. */
struct pixels {
	unsigned width, height;
	uint8_t *rgb;
};

void pixels_done(struct pixels *p);

/* As large as there is room for, and never larger than it is; no side is 0. */
void pixels_fit(struct pixels *size, unsigned width, unsigned height);

/* Each new pixel is the mean of those it stands for: ret->width and height are at most from's. */
int pixels_shrink(const struct pixels *from, struct pixels *ret);

/* In at most that many colours. Sides up to SIXEL_SIDE_MAX. 0, -EFBIG or -ENOMEM. */
int sixel_append(struct buf *out, const struct pixels *p, unsigned colours);

/*
 * Whether these are sixels of a picture of at most that size and that many colours, and nothing
 * else: no control character, no number out of bounds, no pixel outside.
 */
bool sixel_is_sound(const char *text, size_t len, unsigned width, unsigned height,
		    unsigned colours);

/* sixel_palette.c: colours of a picture, few enough. */
struct palette {
	unsigned n;
	uint8_t rgb[SIXEL_COLOURS_MAX][3];
	uint8_t *of; /* which of them stands for a colour: by palette_cell() */
};

#define PALETTE_CELLS (1u << 15)

static inline unsigned palette_cell(const uint8_t *rgb)
{
	return (unsigned)(rgb[0] >> 3) << 10 | (unsigned)(rgb[1] >> 3) << 5 | rgb[2] >> 3;
}

int palette_init(struct palette *ret, const struct pixels *p, unsigned colours);
void palette_done(struct palette *p);
