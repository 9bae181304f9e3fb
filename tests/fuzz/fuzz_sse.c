/*
 * Server-sent events: the first byte says how the rest is cut. However it is cut, the same
 * events come of it, each within the bounds.
 */
#include "fuzz.h"

#include "base/buf.h"
#include "cli/remote_sse.h"

#include <errno.h>

#define MAX 200

static int note(void *ctx, const char *name, const char *data, size_t len)
{
	struct buf *seen = ctx;

	CHECK(name[0] && strlen(name) <= SSE_NAME_MAX && !strpbrk(name, "\r\n"));
	CHECK(len <= MAX && data[len] == '\0' && !memchr(data, '\r', len));
	CHECK(buf_printf(seen, "%s %zu ", name, len) == 0 && buf_append(seen, data, len) == 0);
	return strcmp(name, "result") == 0;
}

static int feed(struct input in, size_t piece, struct buf *seen)
{
	_cleanup_(sse_done) struct sse s;
	int r = 0;

	sse_init(&s, MAX);
	while (in.len > 0 && r == 0) {
		size_t n = size_min(piece, in.len);

		r = sse_feed(&s, (const char *)in.at, n, note, seen);
		in.at += n;
		in.len -= n;
	}
	CHECK(r == 0 || r == 1 || r == -EFBIG);
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = INPUT(data, size);
	uint8_t first = input_u8(&in);
	_cleanup_(buf_done) struct buf whole = BUF(1 << 24), cut = BUF(1 << 24);
	int r = feed(in, SIZE_MAX, &whole);

	CHECK(feed(in, (size_t)first + 1, &cut) == r);
	CHECK(whole.len == cut.len && memcmp(buf_str(&whole), buf_str(&cut), cut.len) == 0);
	return 0;
}
