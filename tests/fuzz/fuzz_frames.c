/*
 * Streams of attached containers: the first byte says how the rest is cut. However it is cut, the
 * same bytes come of it for each stream, and no more than came. And what engines refuse with.
 */
#include "fuzz.h"

#include "base/buf.h"
#include "engine/container/docker.h"
#include "engine/container/frames.h"

struct fed {
	struct buf seen[FRAME_KINDS];
	bool border;
};

static int feed(struct input in, size_t piece, struct fed *fed)
{
	struct frames f = {0};
	int r = 0;

	while (in.len > 0 && r == 0) {
		const char *data = (const char *)in.at, *got;
		size_t left = size_min(piece, in.len), n = left, got_len;
		enum frame_kind kind;

		while ((r = frames_next(&f, &data, &left, &kind, &got, &got_len)) == 1) {
			CHECK(kind < FRAME_KINDS && got_len > 0);
			CHECK(got >= (const char *)in.at &&
			      got + got_len <= (const char *)in.at + n);
			CHECK(buf_append(&fed->seen[kind], got, got_len) == 0);
		}
		CHECK(r == -1 || (r == 0 && left == 0));
		in.at += n;
		in.len -= n;
	}
	fed->border = frames_at_border(&f);
	return r;
}

static void same(struct input in, size_t piece)
{
	struct fed whole, cut;
	int r;

	for (size_t i = 0; i < FRAME_KINDS; i++)
		whole.seen[i] = cut.seen[i] = BUF(1 << 24);
	r = feed(in, SIZE_MAX, &whole);
	CHECK(feed(in, piece, &cut) == r && (r < 0 || whole.border == cut.border));
	for (size_t i = 0; i < FRAME_KINDS; i++) {
		CHECK(whole.seen[i].len == cut.seen[i].len);
		CHECK(memcmp(buf_str(&whole.seen[i]), buf_str(&cut.seen[i]), cut.seen[i].len) == 0);
		buf_done(&whole.seen[i]);
		buf_done(&cut.seen[i]);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = INPUT(data, size);
	uint8_t first = input_u8(&in);
	struct cay_error err;

	same(in, (size_t)first + 1);
	CHECK(docker_refused(ENGINE_DOCKER, "do it", 400 + first, (const char *)in.at, in.len,
			     &err) == -1);
	CHECK(err.code != CAY_OK && strlen(err.text) < sizeof(err.text));
	for (const char *c = err.text; *c; c++)
		CHECK((unsigned char)*c >= 0x20 && *c != 0x7f);
	return 0;
}
