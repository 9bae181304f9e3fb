/*
 * Bounded output: two bytes of limit, then pieces, each a byte of length and its
 * bytes. What is kept is the beginning and the end of all of it.
 */
#include "fuzz.h"

#include "base/buf.h"
#include "core/capture.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = INPUT(data, size);
	size_t limit = input_u16(&in) % 4096, head, tail;
	struct buf all = BUF(1 << 20), kept = BUF(1 << 20);
	struct capture c;

	capture_init(&c, limit);
	while (in.len > 0) {
		size_t n = input_u8(&in) * 5u;

		n = size_min(n, in.len);
		CHECK(capture_add(&c, (const char *)in.at, n) == 0);
		CHECK(buf_append(&all, in.at, n) == 0);
		in.at += n;
		in.len -= n;
		CHECK(c.head_len + c.tail_len <= limit);
		CHECK(c.head_len + c.tail_len + c.dropped == all.len);
	}
	CHECK(capture_text(&c, &kept) == 0);
	CHECK(kept.len == size_min(limit, all.len));
	CHECK(capture_truncated(&c) == (all.len > limit));
	head = size_min(kept.len, limit - limit / 2);
	tail = kept.len - head;
	CHECK(memcmp(buf_str(&kept), buf_str(&all), head) == 0);
	CHECK(memcmp(buf_str(&kept) + head, buf_str(&all) + all.len - tail, tail) == 0);
	capture_done(&c);
	buf_done(&all);
	buf_done(&kept);
	return 0;
}
