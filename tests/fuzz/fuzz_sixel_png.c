/* Whatever is decoded has the size that was said, within the bounds, and becomes sound sixels. */
#include "fuzz.h"

#include "cli/sixel_png.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(buf_done) struct buf text = BUF(1 << 20);
	struct pixels p = {0}, small;

	if (sixel_png_decode(data, size, &p) < 0) {
		CHECK(!p.rgb);
		return 0;
	}
	CHECK(p.width > 0 && p.height > 0 && (uint64_t)p.width * p.height <= SIXEL_PNG_AREA_MAX);
	small = p;
	pixels_fit(&small, 100, 100);
	CHECK(pixels_shrink(&p, &small) == 0 && sixel_append(&text, &small, 256) == 0);
	CHECK(sixel_is_sound(text.data, text.len, 100, 100, 256));
	pixels_done(&p);
	pixels_done(&small);
	return 0;
}
