/*
 * sixel_support.h: draws sixels, as a terminal does that believes all it is told.
 */
#pragma once

#include "cli/sixel.h"

#include <assert.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define UNSET 255

/* In percent, UNSET where nothing was painted; the caller frees it. Aborts at a step outside. */
static inline void sixel_draw(const char *text, struct pixels *ret)
{
	uint8_t colours[SIXEL_COLOURS_MAX][3] = {{0}};
	unsigned n, kind, x = 0, y = 0, colour = 0, c[3];
	int used = 0;

	assert(sscanf(text, "\"1;1;%u;%u%n", &ret->width, &ret->height, &used) == 2);
	ret->rgb = malloc((size_t)ret->width * ret->height * 3);
	assert(ret->rgb);
	memset(ret->rgb, UNSET, (size_t)ret->width * ret->height * 3);
	for (text += used; *text; text += used) {
		used = 1;
		n = 1;
		if (*text == '#') {
			int all = 0;

			assert(sscanf(text, "#%u%n", &colour, &used) == 1);
			assert(colour < SIXEL_COLOURS_MAX);
			(void)sscanf(text, "#%*u;%u;%u;%u;%u%n", &kind, &c[0], &c[1], &c[2], &all);
			for (int k = 0; all > 0 && k < 3; k++)
				colours[colour][k] = (uint8_t)c[k];
			used = all > 0 ? all : used;
			continue;
		}
		if (*text == '$' || *text == '-') {
			y += *text == '-' ? 6 : 0;
			x = 0;
			continue;
		}
		if (*text == '!') {
			assert(sscanf(text, "!%u%n", &n, &used) == 1);
			text += used;
			used = 1;
		}
		for (; n > 0; n--, x++)
			for (unsigned bit = 0; bit < 6; bit++)
				if ((*text - '?') >> bit & 1) {
					if (y + bit >= ret->height)
						continue; /* it is cut there */
					assert(x < ret->width);
					memcpy(ret->rgb + 3 * ((size_t)(y + bit) * ret->width + x),
					       colours[colour], 3);
				}
	}
}
