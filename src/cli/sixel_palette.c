/*
 * Median cut: colours that are alike to five bits are one cell. All cells are one box; the box that
 * counts most is cut where half of its pixels are on each side, until there are enough. What a box
 * becomes is the mean of its pixels.
 */
#include "base/attr.h"
#include "cli/sixel.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CHANNELS 3
#define LEVELS   32u

struct cell {
	uint32_t pixels;
	uint64_t sums[CHANNELS];
};

struct box {
	unsigned begin, end; /* of the cells in use */
	uint64_t pixels;
	unsigned channel, extent; /* where it is longest */
};

struct cut {
	struct cell *cells;
	uint16_t *used, *spare; /* numbers of cells that have pixels */
	unsigned n_used, n;
	struct box boxes[SIXEL_COLOURS_MAX];
};

static unsigned level(unsigned cell, unsigned channel)
{
	return cell >> (5 * (CHANNELS - 1 - channel)) & (LEVELS - 1);
}

static void count(struct cut *c, const struct pixels *p)
{
	size_t n = (size_t)p->width * p->height;

	for (size_t i = 0; i < n; i++) {
		const uint8_t *rgb = p->rgb + CHANNELS * i;
		struct cell *cell = &c->cells[palette_cell(rgb)];

		cell->pixels++;
		for (unsigned k = 0; k < CHANNELS; k++)
			cell->sums[k] += rgb[k];
	}
	for (unsigned i = 0; i < PALETTE_CELLS; i++)
		if (c->cells[i].pixels > 0)
			c->used[c->n_used++] = (uint16_t)i;
}

static void measure(const struct cut *c, struct box *b)
{
	b->pixels = 0;
	b->extent = 0;
	for (unsigned i = b->begin; i < b->end; i++)
		b->pixels += c->cells[c->used[i]].pixels;
	for (unsigned k = 0; k < CHANNELS; k++) {
		unsigned low = LEVELS, high = 0;

		for (unsigned i = b->begin; i < b->end; i++) {
			unsigned l = level(c->used[i], k);

			low = l < low ? l : low;
			high = l > high ? l : high;
		}
		if (high - low > b->extent) {
			b->extent = high - low;
			b->channel = k;
		}
	}
}

static struct box *largest(struct cut *c)
{
	struct box *found = NULL;
	uint64_t most = 0;

	for (unsigned i = 0; i < c->n; i++) {
		uint64_t weight = c->boxes[i].pixels * c->boxes[i].extent;

		if (weight > most) {
			most = weight;
			found = &c->boxes[i];
		}
	}
	return found;
}

/* By its longest channel, which has few levels. */
static void sort(struct cut *c, const struct box *b)
{
	unsigned at = b->begin;

	for (unsigned l = 0; l < LEVELS; l++)
		for (unsigned i = b->begin; i < b->end; i++)
			if (level(c->used[i], b->channel) == l)
				c->spare[at++] = c->used[i];
	memcpy(c->used + b->begin, c->spare + b->begin, (b->end - b->begin) * sizeof(*c->used));
}

/* Between two levels, so that each side has some: an extent is not 0. */
static unsigned middle(const struct cut *c, const struct box *b)
{
	unsigned first = level(c->used[b->begin], b->channel);
	unsigned last = level(c->used[b->end - 1], b->channel), at = b->begin;
	uint64_t pixels = 0;

	while (level(c->used[at], b->channel) == first)
		pixels += c->cells[c->used[at++]].pixels;
	while (pixels < b->pixels / 2 && level(c->used[at], b->channel) < last)
		pixels += c->cells[c->used[at++]].pixels;
	return at;
}

static void cut(struct cut *c, unsigned colours)
{
	struct box *b;

	c->boxes[0] = (struct box){.end = c->n_used};
	measure(c, &c->boxes[0]);
	c->n = 1;
	while (c->n < colours && (b = largest(c))) {
		struct box *other = &c->boxes[c->n++];

		sort(c, b);
		*other = (struct box){.begin = middle(c, b), .end = b->end};
		b->end = other->begin;
		measure(c, b);
		measure(c, other);
	}
}

static void take(const struct cut *c, struct palette *ret)
{
	ret->n = c->n;
	for (unsigned n = 0; n < c->n; n++) {
		const struct box *b = &c->boxes[n];
		uint64_t pixels = size_max(b->pixels, 1);

		for (unsigned k = 0; k < CHANNELS; k++) {
			uint64_t sum = 0;

			for (unsigned i = b->begin; i < b->end; i++)
				sum += c->cells[c->used[i]].sums[k];
			ret->rgb[n][k] = (uint8_t)((sum + pixels / 2) / pixels);
		}
		for (unsigned i = b->begin; i < b->end; i++)
			ret->of[c->used[i]] = (uint8_t)n;
	}
}

int palette_init(struct palette *ret, const struct pixels *p, unsigned colours)
{
	struct cut *c = calloc(1, sizeof(*c));
	int r = -ENOMEM;

	*ret = (struct palette){.of = calloc(PALETTE_CELLS, 1)};
	if (c) {
		c->cells = calloc(PALETTE_CELLS, sizeof(*c->cells));
		c->used = calloc(PALETTE_CELLS, sizeof(*c->used));
		c->spare = calloc(PALETTE_CELLS, sizeof(*c->spare));
	}
	if (c && c->cells && c->used && c->spare && ret->of) {
		count(c, p);
		cut(c, colours);
		take(c, ret);
		r = 0;
	}
	if (c) {
		free(c->cells);
		free(c->used);
		free(c->spare);
	}
	free(c);
	return r;
}

void palette_done(struct palette *p)
{
	free(p->of);
	p->of = NULL;
}
