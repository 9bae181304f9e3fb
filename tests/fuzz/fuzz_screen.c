/* What a terminal says, cut anywhere: the same is heard, and every byte is an answer's or a key. */
#include "fuzz.h"

#include "base/buf.h"
#include "cli/screen.h"

static struct answers hear(struct input in, size_t piece, struct buf *keys)
{
	struct answers a = {.len = 0};

	while (in.len > 0) {
		size_t n = size_min(piece, in.len);

		CHECK(answers_take(&a, (const char *)in.at, n, keys) == 0);
		CHECK(a.len <= sizeof(a.sequence));
		in.at += n;
		in.len -= n;
	}
	CHECK(answers_end(&a, keys) == 0 && a.len == 0);
	CHECK(a.attributes || !a.sixel);
	return a;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = INPUT(data, size);
	uint8_t first = input_u8(&in);
	_cleanup_(buf_done) struct buf whole = BUF(1 << 20), cut = BUF(1 << 20);
	struct answers a = hear(in, SIZE_MAX, &whole), b = hear(in, (size_t)first + 1, &cut);

	CHECK(whole.len <= in.len && (whole.len < in.len || !a.attributes));
	CHECK(whole.len == cut.len && memcmp(buf_str(&whole), buf_str(&cut), cut.len) == 0);
	CHECK(a.attributes == b.attributes && a.sixel == b.sixel && a.width == b.width &&
	      a.height == b.height && a.colours == b.colours);
	return 0;
}
