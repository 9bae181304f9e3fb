/*
 * sixel_png.h: pictures by libpng, and what a process gives up before it decodes one. In cay-sixel
 * alone.
 */
#pragma once

#include "cli/sixel.h"

#include <stddef.h>

#define SIXEL_PNG_BYTES_MAX ((size_t)16 << 20)
#define SIXEL_PNG_SIDE_MAX  20000u
#define SIXEL_PNG_AREA_MAX  (16u << 20) /* pixels */

/*
 * From here on: no files, no sockets, no processes; reading and writing what is open, 256 MiB of
 * memory, and 5 s of CPU time. 0 or -errno.
 */
int sixel_png_confine(void);

/* What is transparent is on white, as plots expect it. 0, or -1: not a PNG, cut, or too large. */
int sixel_png_decode(const void *data, size_t len, struct pixels *ret);
