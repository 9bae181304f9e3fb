#include "cli/sixel.h"

#include "base/attr.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BAND     6u /* rows */
#define PERCENT  100u
#define SIXEL_0  '?'
#define SIXEL_63 '~'
#define RUN_MIN  4u /* from here on a number is shorter */

void pixels_done(struct pixels *p)
{
	free(p->rgb);
	p->rgb = NULL;
}

void pixels_fit(struct pixels *size, unsigned width, unsigned height)
{
	uint64_t w = size->width, h = size->height;

	if (w > width) {
		h = h * width / w;
		w = width;
	}
	if (h > height) {
		w = w * height / h;
		h = height;
	}
	size->width = w > 0 ? (unsigned)w : 1;
	size->height = h > 0 ? (unsigned)h : 1;
}

/* The pixel at x, y of the smaller one: a rectangle of the larger one, of one pixel at least. */
static void mean(const struct pixels *from, const struct pixels *to, unsigned x, unsigned y)
{
	size_t left = (uint64_t)x * from->width / to->width;
	size_t right = (uint64_t)(x + 1) * from->width / to->width;
	size_t top = (uint64_t)y * from->height / to->height;
	size_t bottom = (uint64_t)(y + 1) * from->height / to->height;
	uint64_t sums[3] = {0}, n = (right - left) * (bottom - top);

	for (size_t row = top; row < bottom; row++)
		for (size_t i = left; i < right; i++)
			for (size_t k = 0; k < 3; k++)
				sums[k] += from->rgb[3 * (row * from->width + i) + k];
	for (size_t k = 0; k < 3; k++)
		to->rgb[3 * ((size_t)y * to->width + x) + k] = (uint8_t)((sums[k] + n / 2) / n);
}

int pixels_shrink(const struct pixels *from, struct pixels *ret)
{
	ret->rgb = calloc((size_t)ret->width * ret->height, 3);
	if (!ret->rgb)
		return -ENOMEM;
	for (unsigned y = 0; y < ret->height; y++)
		for (unsigned x = 0; x < ret->width; x++)
			mean(from, ret, x, y);
	return 0;
}

static int append_run(struct buf *out, unsigned n, uint8_t bits)
{
	char c = (char)(SIXEL_0 + bits);
	int r = 0;

	if (n >= RUN_MIN)
		return buf_printf(out, "!%u%c", n, c);
	for (; n > 0 && r == 0; n--)
		r = buf_append(out, &c, 1);
	return r;
}

/* What there is of one colour; after the last of it nothing need be said. */
static int append_colour(struct buf *out, unsigned colour, const uint8_t *bits, unsigned width)
{
	int r = buf_printf(out, "#%u", colour);

	while (width > 0 && bits[width - 1] == 0)
		width--;
	for (unsigned x = 0, n; x < width && r == 0; x += n) {
		for (n = 1; x + n < width && bits[x + n] == bits[x]; n++)
			;
		r = append_run(out, n, bits[x]);
	}
	return r < 0 ? r : buf_append_str(out, "$");
}

/* Six rows, or what is left. bits: of each colour and column which of the six have it. */
static int append_band(struct buf *out, const struct pixels *p, const struct palette *palette,
		       unsigned top, uint8_t *bits)
{
	unsigned rows = p->height - top < BAND ? p->height - top : BAND;
	bool there[SIXEL_COLOURS_MAX] = {false};
	int r = 0;

	memset(bits, 0, (size_t)palette->n * p->width);
	for (unsigned y = 0; y < rows; y++) {
		const uint8_t *rgb = p->rgb + 3 * (size_t)(top + y) * p->width;

		for (unsigned x = 0; x < p->width; x++, rgb += 3) {
			unsigned colour = palette->of[palette_cell(rgb)];

			there[colour] = true;
			bits[(size_t)colour * p->width + x] |= (uint8_t)(1u << y);
		}
	}
	for (unsigned i = 0; i < palette->n && r == 0; i++)
		if (there[i])
			r = append_colour(out, i, bits + (size_t)i * p->width, p->width);
	return r < 0 || top + rows == p->height ? r : buf_append_str(out, "-");
}

static unsigned percent(uint8_t value)
{
	return (value * PERCENT + 127) / 255;
}

static int append_head(struct buf *out, const struct pixels *p, const struct palette *palette)
{
	int r = buf_printf(out, "\"1;1;%u;%u", p->width, p->height);

	for (unsigned i = 0; i < palette->n && r == 0; i++) {
		const uint8_t *rgb = palette->rgb[i];

		r = buf_printf(out, "#%u;2;%u;%u;%u", i, percent(rgb[0]), percent(rgb[1]),
			       percent(rgb[2]));
	}
	return r;
}

int sixel_append(struct buf *out, const struct pixels *p, unsigned colours)
{
	_cleanup_(palette_done) struct palette palette = {0};
	uint8_t *bits;
	int r;

	if (p->width == 0 || p->height == 0 || p->width > SIXEL_SIDE_MAX ||
	    p->height > SIXEL_SIDE_MAX || colours < SIXEL_COLOURS_MIN ||
	    colours > SIXEL_COLOURS_MAX)
		return -EFBIG;
	r = palette_init(&palette, p, colours);
	bits = calloc(SIXEL_COLOURS_MAX, p->width);
	if (r == 0)
		r = bits ? append_head(out, p, &palette) : -ENOMEM;
	for (unsigned top = 0; top < p->height && r == 0; top += BAND)
		r = append_band(out, p, &palette, top, bits);
	free(bits);
	return r;
}

/* The other end */

struct reader {
	const char *at, *end;
	unsigned width, height, colours; /* the picture's */
	unsigned x, y;
};

static bool take_char(struct reader *r, char c)
{
	if (r->at == r->end || *r->at != c)
		return false;
	r->at++;
	return true;
}

/* Digits, of which a number within the bound has few. */
static bool take_number(struct reader *r, unsigned max, unsigned *ret)
{
	const char *begin = r->at;
	unsigned n = 0;

	while (r->at < r->end && *r->at >= '0' && *r->at <= '9' && n <= max)
		n = 10 * n + (unsigned)(*r->at++ - '0');
	*ret = n;
	return r->at > begin && n <= max;
}

static bool take_head(struct reader *r, unsigned width, unsigned height)
{
	unsigned one;

	return take_char(r, '"') && take_number(r, 1, &one) && one == 1 && take_char(r, ';') &&
	       take_number(r, 1, &one) && one == 1 && take_char(r, ';') &&
	       take_number(r, width, &r->width) && r->width > 0 && take_char(r, ';') &&
	       take_number(r, height, &r->height) && r->height > 0;
}

static bool take_colour(struct reader *r)
{
	unsigned n, kind;

	if (!take_number(r, r->colours - 1, &n))
		return false;
	if (!take_char(r, ';'))
		return true;
	if (!take_number(r, 2, &kind) || kind != 2)
		return false;
	for (int i = 0; i < 3; i++)
		if (!take_char(r, ';') || !take_number(r, PERCENT, &n))
			return false;
	return true;
}

static bool take_pixels(struct reader *r)
{
	unsigned n = 1;

	if (take_char(r, '!') && !take_number(r, r->width, &n))
		return false;
	if (r->at == r->end || *r->at < SIXEL_0 || *r->at > SIXEL_63 || n > r->width - r->x)
		return false;
	r->at++;
	r->x += n;
	return true;
}

static bool take_item(struct reader *r)
{
	if (take_char(r, '#'))
		return take_colour(r);
	if (take_char(r, '$')) {
		r->x = 0;
		return true;
	}
	if (!take_char(r, '-'))
		return take_pixels(r);
	r->x = 0;
	r->y += BAND;
	return r->y < r->height;
}

bool sixel_is_sound(const char *text, size_t len, unsigned width, unsigned height, unsigned colours)
{
	struct reader r = {.at = text, .end = text + len, .colours = colours};

	if (!take_head(&r, width, height))
		return false;
	while (r.at < r.end)
		if (!take_item(&r))
			return false;
	return true;
}
