#include "base/text.h"

#include "base/buf.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define REPLACEMENT  "\xef\xbf\xbd" /* U+FFFD */
#define SEQUENCE_MAX 4

/* How long the sequence is that c begins, or 0. */
static size_t sequence_length(unsigned char c)
{
	if (c < 0x80)
		return 1;
	if (c >= 0xc2 && c <= 0xdf)
		return 2;
	if (c >= 0xe0 && c <= 0xef)
		return 3;
	return c >= 0xf0 && c <= 0xf4 ? 4 : 0;
}

/* The length of the well-formed sequence at s, or 0. */
static size_t sequence(const unsigned char *s, size_t len)
{
	unsigned char c = s[0];
	unsigned char low = 0x80, high = 0xbf;
	size_t n = sequence_length(c);

	if (n < 2)
		return n;
	/* The second byte's range shuts out overlong forms, surrogates and what is past U+10FFFF.
	 */
	if (c == 0xe0)
		low = 0xa0;
	else if (c == 0xed)
		high = 0x9f;
	else if (c == 0xf0)
		low = 0x90;
	else if (c == 0xf4)
		high = 0x8f;
	if (len < n || s[1] < low || s[1] > high)
		return 0;
	for (size_t i = 2; i < n; i++)
		if (s[i] < 0x80 || s[i] > 0xbf)
			return 0;
	return n;
}

int text_is_utf8(const char *s, size_t len)
{
	const unsigned char *p = (const unsigned char *)s;

	while (len > 0) {
		size_t n = sequence(p, len);

		if (n == 0)
			return 0;
		p += n;
		len -= n;
	}
	return 1;
}

size_t text_utf8_whole(const char *s, size_t len)
{
	for (size_t back = 1; back <= 3 && back <= len; back++) {
		unsigned char c = (unsigned char)s[len - back];

		if ((c & 0xc0) == 0x80)
			continue;
		if ((c >= 0xc2 && c <= 0xdf && back < 2) || (c >= 0xe0 && c <= 0xef && back < 3) ||
		    (c >= 0xf0 && c <= 0xf4 && back < 4))
			return len - back;
		break;
	}
	return len;
}

int text_append_utf8(struct buf *out, const char *s, size_t len)
{
	const unsigned char *p = (const unsigned char *)s;
	char mended[4096];
	size_t n = 0;
	int r = 0;

	while (len > 0 && r == 0) {
		size_t good = sequence(p, len), step = good ? good : 1;
		const char *from = good ? (const char *)p : REPLACEMENT;

		for (size_t k = 0; k < (good ? good : strlen(REPLACEMENT)); k++)
			mended[n++] = from[k];
		p += step;
		len -= step;
		if (len == 0 || n > sizeof(mended) - SEQUENCE_MAX) {
			r = buf_append(out, mended, n);
			n = 0;
		}
	}
	return r;
}

/*
 * The length of a character that turns the direction of writing: U+061C, U+200E,
 * U+200F, U+202A to U+202E, U+2066 to U+2069; else 0.
 */
static size_t turns_writing(const unsigned char *s, size_t len)
{
	if (len >= 2 && s[0] == 0xd8 && s[1] == 0x9c)
		return 2;
	if (len < 3 || s[0] != 0xe2)
		return 0;
	if (s[1] == 0x80 && ((s[2] >= 0x8e && s[2] <= 0x8f) || (s[2] >= 0xaa && s[2] <= 0xae)))
		return 3;
	return s[1] == 0x81 && s[2] >= 0xa6 && s[2] <= 0xa9 ? 3 : 0;
}

static bool is_c1(const unsigned char *s, size_t len)
{
	return len >= 2 && s[0] == 0xc2 && s[1] >= 0x80 && s[1] <= 0x9f;
}

void text_flatten(char *s, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		const unsigned char *at = (const unsigned char *)s + i;

		if (s[i] == '\n')
			s[i] = ' ';
		else if ((unsigned char)s[i] < 0x20 || s[i] == 0x7f)
			s[i] = '?';
		else
			memset(s + i, '?', is_c1(at, len - i) ? 2 : turns_writing(at, len - i));
	}
}

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* glibc has b64_ntop() for this, musl has nothing, and a library for one loop would be heavy. */
int text_append_base64(struct buf *out, const void *data, size_t len)
{
	const unsigned char *p = data;
	int r = 0;

	for (; len > 0 && r == 0; p += 3, len -= size_min(len, 3)) {
		uint32_t bits = (uint32_t)p[0] << 16 | (len > 1 ? (uint32_t)p[1] << 8 : 0) |
				(len > 2 ? (uint32_t)p[2] : 0);
		char four[4] = {digits[bits >> 18], digits[bits >> 12 & 63],
				len > 1 ? digits[bits >> 6 & 63] : '=',
				len > 2 ? digits[bits & 63] : '='};

		r = buf_append(out, four, sizeof(four));
	}
	return r;
}

static int digit_value(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* n digits, then padding, into n - 1 bytes. */
static int decode_four(const char *s, size_t n, char three[3])
{
	uint32_t bits = 0;

	for (size_t i = 0; i < 4; i++) {
		int v = i < n ? digit_value(s[i]) : 0;

		if (v < 0)
			return -EINVAL;
		bits = bits << 6 | (uint32_t)v;
	}
	for (size_t i = 0; i < 3; i++)
		three[i] = (char)(bits >> (16 - 8 * i) & 0xff);
	/* What the padding stands for is 0, or two texts would mean the same. */
	return n < 4 && three[n - 1] != 0 ? -EINVAL : 0;
}

int text_decode_base64(struct buf *out, const char *s, size_t len)
{
	int r = len % 4 == 0 ? 0 : -EINVAL;

	for (; len > 0 && r == 0; s += 4, len -= 4) {
		bool last = len == 4;
		size_t n = last && s[3] == '=' ? (s[2] == '=' ? 2 : 3) : 4;
		char three[3];

		r = decode_four(s, n, three);
		if (r == 0)
			r = buf_append(out, three, n - 1);
	}
	return r;
}

enum { PLAIN, ESCAPE, CSI, UTF8 };

static int append_caret(struct buf *out, unsigned char c)
{
	if (c == 0x7f)
		return buf_append_str(out, "^?");
	return buf_printf(out, "^%c", c + '@');
}

static int is_harmless(unsigned char c)
{
	return c >= 0x20 ? c != 0x7f : c == '\n' || c == '\t' || c == '\r';
}

/* Lets go of an escape sequence: a colour as it is, others with the escape made visible. */
static int release(struct text_filter *f, struct buf *out, int as_is)
{
	int r = 0;

	for (size_t i = 0; i < f->held && r == 0; i++) {
		unsigned char c = (unsigned char)f->pending[i];

		r = as_is || is_harmless(c) ? buf_append(out, &c, 1) : append_caret(out, c);
	}
	f->held = 0;
	f->state = PLAIN;
	return r;
}

static int hold(struct text_filter *f, struct buf *out, char c)
{
	f->pending[f->held++] = c;
	return f->held == sizeof(f->pending) ? release(f, out, 0) : 0;
}

/*
 * Lets go of a character past ASCII. C1 controls (U+0080 to U+009F) act like ESC
 * sequences on some terminals, and 8-bit ones obey the bare bytes 0x80 to 0x9f:
 * neither passes, which is why these characters are held until they are whole.
 */
static int release_utf8(struct text_filter *f, struct buf *out)
{
	const unsigned char *p = (const unsigned char *)f->pending;
	size_t n = f->held;

	f->held = 0;
	f->state = PLAIN;
	if (sequence(p, n) == n && !is_c1(p, n) && !turns_writing(p, n))
		return buf_append(out, p, n);
	return buf_append_str(out, REPLACEMENT);
}

static int feed_plain(struct text_filter *f, struct buf *out, unsigned char c)
{
	if (c >= 0x80) {
		f->pending[f->held++] = (char)c;
		f->state = UTF8;
		return sequence_length(c) > 1 ? 0 : release_utf8(f, out);
	}
	if (c == 0x1b) {
		f->state = ESCAPE;
		return hold(f, out, (char)c);
	}
	return is_harmless(c) ? buf_append(out, &c, 1) : append_caret(out, c);
}

/* Each of these takes c, or lets go of what is held and sets *again for c to be seen as plain. */
static int feed_utf8(struct text_filter *f, struct buf *out, unsigned char c, int *again)
{
	if (c < 0x80 || c > 0xbf) {
		*again = 1;
		return release_utf8(f, out);
	}
	f->pending[f->held++] = (char)c;
	if (f->held < sequence_length((unsigned char)f->pending[0]))
		return 0;
	return release_utf8(f, out);
}

static int feed_escape(struct text_filter *f, struct buf *out, unsigned char c, int *again)
{
	if (c == '[') {
		f->state = CSI;
		return hold(f, out, (char)c);
	}
	*again = 1;
	return release(f, out, 0);
}

static int feed_csi(struct text_filter *f, struct buf *out, unsigned char c, int *again)
{
	if ((c >= '0' && c <= '9') || c == ';' || c == ':')
		return hold(f, out, (char)c);
	if (c == 'm') {
		f->pending[f->held++] = 'm';
		return release(f, out, 1);
	}
	*again = 1;
	return release(f, out, 0);
}

int text_filter_feed(struct text_filter *f, struct buf *out, const char *s, size_t len)
{
	int r = 0;

	for (size_t i = 0; i < len && r == 0; i++) {
		unsigned char c = (unsigned char)s[i];
		int again = 0;

		if (f->state == ESCAPE)
			r = feed_escape(f, out, c, &again);
		else if (f->state == CSI)
			r = feed_csi(f, out, c, &again);
		else if (f->state == UTF8)
			r = feed_utf8(f, out, c, &again);
		else
			again = 1;
		if (r == 0 && again)
			r = feed_plain(f, out, c);
	}
	return r;
}

int text_filter_end(struct text_filter *f, struct buf *out)
{
	return f->state == UTF8 ? release_utf8(f, out) : release(f, out, 0);
}

int text_append_harmless(struct buf *out, char *text, size_t len)
{
	struct text_filter filter = {0};
	int r;

	text_flatten(text, len);
	r = text_filter_feed(&filter, out, text, len);
	return r < 0 ? r : text_filter_end(&filter, out);
}

int text_append_encoded(struct buf *out, const char *text)
{
	static const char plain[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~";
	int r = 0;

	while (*text && r == 0) {
		size_t n = strspn(text, plain);

		r = buf_append(out, text, n);
		text += n;
		if (r == 0 && *text)
			r = buf_printf(out, "%%%02X", (unsigned char)*text++);
	}
	return r;
}
