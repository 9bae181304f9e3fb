/* What becomes of a program's bytes before a terminal or a JSON reader sees them. */
#include "fuzz.h"

#include "base/buf.h"
#include "base/json.h"
#include "base/text.h"

#include <jansson.h>

#define ROOM(size) BUF(8 * (size) + 64)

/* The character at p, by the rules of UTF-8 and no table; 0 bytes: it is none. */
static size_t decode(const unsigned char *p, size_t len, uint32_t *ret)
{
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	size_t n = p[0] < 0x80       ? 1
		   : p[0] >> 5 == 6  ? 2
		   : p[0] >> 4 == 14 ? 3
		   : p[0] >> 3 == 30 ? 4
				     : 0;
	uint32_t c = n == 1 ? p[0] : n > 0 ? p[0] & (0x7fu >> n) : 0;

	if (n == 0 || n > len)
		return 0;
	for (size_t i = 1; i < n; i++) {
		if (p[i] >> 6 != 2)
			return 0;
		c = c << 6 | (p[i] & 0x3f);
	}
	*ret = c;
	return c < least[n] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff) ? 0 : n;
}

static bool is_utf8(const char *s, size_t len)
{
	uint32_t c;

	for (size_t n = 0; len > 0; s += n, len -= n) {
		n = decode((const unsigned char *)s, len, &c);
		if (n == 0)
			return false;
	}
	return true;
}

static bool turns_writing(uint32_t c)
{
	return c == 0x61c || c == 0x200e || c == 0x200f || (c >= 0x202a && c <= 0x202e) ||
	       (c >= 0x2066 && c <= 0x2069);
}

/* Text, white space and colours alone; on a flattened line no colours and breaks either. */
static void check_harmless(const struct buf *out, bool flat)
{
	const char *s = buf_str(out), *end = s + out->len;
	uint32_t c;

	while (s < end) {
		size_t n = decode((const unsigned char *)s, (size_t)(end - s), &c);

		CHECK(n > 0 && c != 0x7f && (c < 0x80 || c > 0x9f));
		CHECK(c >= 0x20 || (!flat && strchr("\n\t\r\x1b", (int)c)));
		CHECK(!flat || !turns_writing(c));
		s += n;
		if (c == 0x1b) {
			CHECK(s < end && *s == '[');
			s += 1 + strspn(s + 1, "0123456789;:");
			CHECK(s < end && *s == 'm');
		}
	}
}

static void check_filter(const char *s, size_t len, size_t cut)
{
	struct text_filter whole = {0}, parts = {0};
	struct buf a = ROOM(len), b = ROOM(len);

	CHECK(text_filter_feed(&whole, &a, s, len) == 0 && text_filter_end(&whole, &a) == 0);
	/* However the pipe cuts it, the same comes out. */
	for (size_t at = 0; at < len; at += cut)
		CHECK(text_filter_feed(&parts, &b, s + at, size_min(cut, len - at)) == 0);
	CHECK(text_filter_end(&parts, &b) == 0);
	CHECK(a.len == b.len && memcmp(buf_str(&a), buf_str(&b), a.len) == 0);
	check_harmless(&a, false);
	/* What is harmless already stays as it is. */
	b.len = 0;
	CHECK(text_filter_feed(&whole, &b, buf_str(&a), a.len) == 0);
	CHECK(text_filter_end(&whole, &b) == 0);
	CHECK(a.len == b.len && memcmp(buf_str(&a), buf_str(&b), a.len) == 0);
	buf_done(&a);
	buf_done(&b);
}

static void check_flat(const char *s, size_t len)
{
	struct text_filter filter = {0};
	struct buf copy = ROOM(len), out = ROOM(len);

	CHECK(buf_append(&copy, s, len) == 0);
	text_flatten(copy.data, copy.len);
	CHECK(text_filter_feed(&filter, &out, copy.data, copy.len) == 0);
	CHECK(text_filter_end(&filter, &out) == 0);
	check_harmless(&out, true);
	buf_done(&copy);
	buf_done(&out);
}

static void check_utf8(const char *s, size_t len)
{
	struct buf out = ROOM(len);

	CHECK(text_is_utf8(s, len) == is_utf8(s, len));
	CHECK(text_append_utf8(&out, s, len) == 0);
	CHECK(is_utf8(buf_str(&out), out.len));
	CHECK(!is_utf8(s, len) || (out.len == len && memcmp(buf_str(&out), s, len) == 0));
	buf_done(&out);
}

static void check_base64(const char *s, size_t len)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	struct buf out = ROOM(len), back = ROOM(len);

	CHECK(text_append_base64(&out, s, len) == 0 && out.len == (len + 2) / 3 * 4);
	for (size_t i = 0; i < len; i++) {
		const char *four = out.data + i / 3 * 4 + i % 3;
		size_t high = (size_t)(strchr(digits, four[0]) - digits);
		size_t low = (size_t)(strchr(digits, four[1]) - digits);
		unsigned shift = 2 * (unsigned)(i % 3) + 2;

		CHECK((unsigned char)(high << shift | low >> (6 - shift)) == (unsigned char)s[i]);
	}
	CHECK(text_decode_base64(&back, buf_str(&out), out.len) == 0);
	CHECK(back.len == len && memcmp(buf_str(&back), s, len) == 0);
	/* What is read as base64 is the one text that means its bytes. */
	back.len = out.len = 0;
	if (text_decode_base64(&back, s, len) == 0) {
		CHECK(text_append_base64(&out, buf_str(&back), back.len) == 0);
		CHECK(out.len == len && memcmp(buf_str(&out), s, len) == 0);
	}
	buf_done(&back);
	buf_done(&out);
}

/* Others read our JSON: it must be such, whatever the program wrote. */
static void check_json(const char *s, size_t len)
{
	_cleanup_(json_freep) struct json *j = json_new_object();
	struct buf out = ROOM(len);
	json_t *read;

	json_set_bytes(j, "output", s, len);
	CHECK(json_text(j, &out) == 0);
	read = json_loadb(buf_str(&out), out.len, JSON_ALLOW_NUL, NULL);
	CHECK(read);
	CHECK(!is_utf8(s, len) ||
	      (json_string_length(json_object_get(read, "output")) == len &&
	       memcmp(json_string_value(json_object_get(read, "output")), s, len) == 0));
	json_decref(read);
	buf_done(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = INPUT(data, size);
	size_t cut = input_u8(&in) % 8 + 1u;
	const char *s = (const char *)in.at;

	if (in.len == 0)
		return 0;
	check_filter(s, in.len, cut);
	check_flat(s, in.len);
	check_utf8(s, in.len);
	check_base64(s, in.len);
	check_json(s, in.len);
	return 0;
}
