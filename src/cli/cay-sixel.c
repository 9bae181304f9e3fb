/*
 * cay-sixel WIDTH HEIGHT COLOURS: a PNG from standard input as sixels to standard output, shrunk to
 * that size. A program of its own, because a decoder of what a stranger's program calls a picture
 * shall have nothing to lose: it may read, write, have some memory and end. All or nothing is
 * written; 1: it is no PNG, or too large, or was cut.
 */
#include "base/attr.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/parse.h"
#include "cli/sixel_png.h"

#include <unistd.h>

static int read_side(const char *text, uint64_t min, uint64_t max, unsigned *ret)
{
	uint64_t n;
	int r = parse_u64(text, min, max, &n);

	*ret = r == 0 ? (unsigned)n : 0;
	return r;
}

static int convert(const struct buf *png, unsigned width, unsigned height, unsigned colours)
{
	_cleanup_(pixels_done) struct pixels whole = {0}, small = {0};
	_cleanup_(buf_done) struct buf text = BUF(SIXEL_BYTES_MAX);

	if (sixel_png_decode(png->data, png->len, &whole) < 0)
		return -1;
	small = (struct pixels){.width = whole.width, .height = whole.height};
	pixels_fit(&small, width, height);
	if (pixels_shrink(&whole, &small) < 0 || sixel_append(&text, &small, colours) < 0)
		return -1;
	return fd_write_all(STDOUT_FILENO, text.data, text.len);
}

int main(int argc, char **argv)
{
	_cleanup_(buf_done) struct buf png = BUF(SIXEL_PNG_BYTES_MAX);
	unsigned width, height, colours;

	if (argc != 4 || read_side(argv[1], 1, SIXEL_SIDE_MAX, &width) < 0 ||
	    read_side(argv[2], 1, SIXEL_SIDE_MAX, &height) < 0 ||
	    read_side(argv[3], SIXEL_COLOURS_MIN, SIXEL_COLOURS_MAX, &colours) < 0)
		return 2;
	if (sixel_png_confine() < 0)
		return 3;
	if (fd_read_all(STDIN_FILENO, &png) < 0 || convert(&png, width, height, colours) < 0)
		return 1;
	return 0;
}
