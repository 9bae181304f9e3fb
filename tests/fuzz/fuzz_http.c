/*
 * HTTP messages: the first byte says of which kind and how the rest is cut. However it
 * is cut, the same messages must come of it, or a refusal.
 */
#include "fuzz.h"

#include "base/buf.h"
#include "base/http.h"

static const struct http_limits limits = {.line_bytes = 100, .head_bytes = 500, .header_lines = 10};

static void check_text(const char *s, size_t max)
{
	CHECK(strlen(s) <= max && !strpbrk(s, "\r\n"));
}

static void check_head(const struct http_head *h, enum http_kind kind)
{
	CHECK(h->n_headers <= limits.header_lines && h->minor <= 1);
	CHECK(!(h->chunked && h->has_length));
	CHECK(http_header_count(h, "content-length") <= 1);
	CHECK(http_header_count(h, "transfer-encoding") <= 1);
	if (kind == HTTP_REQUESTS) {
		check_text(h->url, limits.line_bytes);
		CHECK(h->url[0] && !strchr(h->url, ' '));
	} else {
		CHECK(h->status >= 0 && h->status <= 999);
	}
	for (size_t i = 0; i < h->n_headers; i++) {
		check_text(h->headers[i].name, limits.head_bytes);
		check_text(h->headers[i].value, limits.head_bytes);
		CHECK(h->headers[i].name[0] && !strpbrk(h->headers[i].name, " :\t"));
		CHECK(http_header(h, h->headers[i].name));
	}
}

/* One event, written down; false: that was it. */
static bool step(struct http_parser *p, enum http_kind kind, struct input *in, size_t n,
		 struct buf *seen, size_t *ret_used, bool *ret_more)
{
	enum http_event e = http_parse(p, (const char *)in->at, n, ret_used);
	const struct http_head *h = http_parser_head(p);
	const char *body;
	size_t len;

	CHECK(*ret_used <= n);
	*ret_more = e == HTTP_MORE;
	switch (e) {
	case HTTP_GOT_HEAD:
		check_head(h, kind);
		CHECK(buf_printf(seen, "head %s %s %d %zu\n", h->method ? h->method : "",
				 h->url ? h->url : "", h->status, h->n_headers) == 0);
		break;
	case HTTP_GOT_BODY:
		body = http_parser_body(p, &len);
		CHECK(len > 0 && body >= (const char *)in->at &&
		      body + len <= (const char *)in->at + *ret_used);
		CHECK(buf_append(seen, body, len) == 0);
		break;
	case HTTP_GOT_END:
		CHECK(buf_append_str(seen, "\nend\n") == 0);
		http_parser_reset(p);
		break;
	case HTTP_BAD:
		CHECK(http_parser_status(p) >= 400 && http_parser_reason(p));
		CHECK(http_parse(p, "x", 1, &len) == HTTP_BAD);
		return false;
	case HTTP_MORE:
		CHECK(*ret_used == n);
		break;
	}
	return true;
}

/* All of it in pieces of that size. Whether it was refused. */
static bool feed(enum http_kind kind, struct input in, size_t piece, struct buf *seen)
{
	_cleanup_(http_parser_freep) struct http_parser *p = http_parser_new(kind, &limits);

	CHECK(p);
	while (in.len > 0) {
		size_t n = size_min(piece, in.len), used;
		bool more;

		do {
			if (!step(p, kind, &in, n, seen, &used, &more))
				return true;
			in.at += used;
			in.len -= used;
			n -= used;
		} while (!more);
	}
	return http_parse_eof(p) == HTTP_BAD;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = INPUT(data, size);
	uint8_t first = input_u8(&in);
	enum http_kind kind = first & 1 ? HTTP_RESPONSES : HTTP_REQUESTS;
	_cleanup_(buf_done) struct buf whole = BUF(1 << 24), cut = BUF(1 << 24);
	bool bad = feed(kind, in, SIZE_MAX, &whole);

	CHECK(feed(kind, in, (size_t)(first >> 1) + 1, &cut) == bad);
	/* Of what is refused, cuts may show more or less before it is. */
	if (!bad)
		CHECK(whole.len == cut.len && memcmp(buf_str(&whole), buf_str(&cut), cut.len) == 0);
	return 0;
}
