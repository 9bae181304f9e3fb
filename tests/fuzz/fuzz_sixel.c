/*
 * Pixels become sixels, and whoever looks at those finds them sound and draws a picture of that
 * size without a hole; and what is found sound, whoever has written it, is drawn within its bounds.
 */
#include "fuzz.h"

#include "../unit/sixel_support.h"

static void try_text(struct input *in)
{
	_cleanup_(freep) char *text = input_rest(in);
	struct pixels drawn = {0};

	if (sixel_is_sound(text, strlen(text), 64, 64, 16)) {
		CHECK(strspn(text, "!\"#$-0123456789;?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`"
				   "abcdefghijklmnopqrstuvwxyz{|}~") == strlen(text));
		sixel_draw(text, &drawn);
		CHECK(drawn.width <= 64 && drawn.height <= 64);
	}
	pixels_done(&drawn);
}

static void try_pixels(struct input *in)
{
	_cleanup_(buf_done) struct buf text = BUF(1 << 20);
	struct pixels p = {.width = 1 + input_u8(in) % 64, .height = 1 + input_u8(in) % 64};
	struct pixels small = p, drawn = {0};
	unsigned colours = 2 + input_u8(in) % 255;

	p.rgb = calloc((size_t)p.width * p.height, 3);
	CHECK(p.rgb);
	for (size_t i = 0; i < (size_t)3 * p.width * p.height; i++)
		p.rgb[i] = input_u8(in);
	pixels_fit(&small, 40, 40);
	CHECK(pixels_shrink(&p, &small) == 0 && sixel_append(&text, &small, colours) == 0);
	CHECK(sixel_is_sound(text.data, text.len, small.width, small.height, colours));
	sixel_draw(buf_str(&text), &drawn);
	CHECK(drawn.width == small.width && drawn.height == small.height);
	for (size_t i = 0; i < (size_t)3 * drawn.width * drawn.height; i++)
		CHECK(drawn.rgb[i] <= 100);
	pixels_done(&p);
	pixels_done(&small);
	pixels_done(&drawn);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = INPUT(data, size);

	if (input_u8(&in) & 1)
		try_text(&in);
	else
		try_pixels(&in);
	return 0;
}
