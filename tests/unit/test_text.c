#include "base/text.h"

#include "base/attr.h"
#include "base/buf.h"

#include <errno.h>
#include <netinet/in.h>
#include <resolv.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#define FFFD "\xef\xbf\xbd"

/* What each is mended to; NULL: it is well-formed and stays. */
static const struct {
	const char *bytes;
	const char *mended;
} utf8[] = {
	{"", NULL},
	{"plain", NULL},
	{"\xc3\xa9\xe2\x82\xac\xf0\x9f\x8f\x9d", NULL}, /* é € 🏝 */
	{"\xed\x9f\xbf\xee\x80\x80", NULL},             /* U+D7FF, U+E000: beside the surrogates */
	{"\xf4\x8f\xbf\xbf", NULL},                     /* U+10FFFF */
	{"\x80", FFFD},
	{"a\xff"
	 "b",
	 "a" FFFD "b"},
	{"\xc0\xaf", FFFD FFFD},          /* overlong '/' */
	{"\xc1\xbf", FFFD FFFD},          /* overlong */
	{"\xe0\x80\xaf", FFFD FFFD FFFD}, /* overlong '/' */
	{"\xf0\x80\x80\xaf", FFFD FFFD FFFD FFFD},
	{"\xed\xa0\x80", FFFD FFFD FFFD},          /* a surrogate */
	{"\xf4\x90\x80\x80", FFFD FFFD FFFD FFFD}, /* past U+10FFFF */
	{"\xf5\x80\x80\x80", FFFD FFFD FFFD FFFD},
	{"\xe2\x82", FFFD FFFD}, /* cut at the end */
	{"\xe2\x82x", FFFD FFFD "x"},
	{"\xc3", FFFD},
};

static void knows_utf8(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(utf8); i++)
		if (text_is_utf8(utf8[i].bytes, strlen(utf8[i].bytes)) != !utf8[i].mended)
			fail_msg("row %zu", i);
	assert_true(text_is_utf8("a\0b", 3));
	/* The bytes behind the end do not count. */
	assert_false(text_is_utf8("\xc3\xa9", 1));
}

static void mends_utf8(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(utf8); i++) {
		const char *expected = utf8[i].mended ? utf8[i].mended : utf8[i].bytes;
		_cleanup_(buf_done) struct buf out = BUF(100);

		assert_int_equal(text_append_utf8(&out, utf8[i].bytes, strlen(utf8[i].bytes)), 0);
		assert_string_equal(buf_str(&out), expected);
		assert_true(text_is_utf8(buf_str(&out), out.len));
	}
}

static void mending_is_bounded(void **state)
{
	_cleanup_(buf_done) struct buf out = BUF(5);

	(void)state;
	assert_int_equal(text_append_utf8(&out, "\xff\xff", 2), -EFBIG);
}

static void encodes_base64(void **state)
{
	static const char *const rows[][2] = {/* RFC 4648 */
					      {"", ""},
					      {"f", "Zg=="},
					      {"fo", "Zm8="},
					      {"foo", "Zm9v"},
					      {"foob", "Zm9vYg=="},
					      {"fooba", "Zm9vYmE="},
					      {"foobar", "Zm9vYmFy"}};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		_cleanup_(buf_done) struct buf out = BUF(100);

		assert_int_equal(text_append_base64(&out, rows[i][0], strlen(rows[i][0])), 0);
		assert_string_equal(buf_str(&out), rows[i][1]);
	}
}

/* Longer than one chunk, and around its borders: decoding gives the bytes back. */
static void encodes_long_base64(void **state)
{
	static const size_t sizes[] = {3071, 3072, 3073, 6144, 10000};
	static unsigned char data[10000], back[10003];

	(void)state;
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (unsigned char)(i * 7 + i / 256);
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		_cleanup_(buf_done) struct buf out = BUF(20000);

		assert_int_equal(text_append_base64(&out, data, sizes[i]), 0);
		assert_int_equal(out.len, (sizes[i] + 2) / 3 * 4);
		assert_int_equal(b64_pton(buf_str(&out), back, sizeof(back)), sizes[i]);
		assert_memory_equal(back, data, sizes[i]);
	}
}

static void decodes_base64(void **state)
{
	static const char *const bad[] = {"Z",     "Zg",     "Zg=",          "Zh==",     "Zm9=",
					  "=Zg=",  "Z===",   "====",         "Zg==Zg==", "Zm8=Zm9v",
					  "Zm 9",  "Zm9\n",  "Zm9v\n\n\n\n", "Zm9-",     "Zm9_",
					  "Zm9v=", "Zm9\xff"};
	_cleanup_(buf_done) struct buf out = BUF(100), small = BUF(2);

	(void)state;
	assert_int_equal(text_decode_base64(&out, "", 0), 0);
	assert_int_equal(text_decode_base64(&out, "Zm9v", 4), 0);
	assert_int_equal(text_decode_base64(&out, "Zg==", 4), 0);
	assert_int_equal(text_decode_base64(&out, "Zm8=", 4), 0);
	assert_int_equal(text_decode_base64(&out, "AP/+", 4), 0);
	assert_int_equal(out.len, 9);
	assert_memory_equal(out.data,
			    "foo"
			    "f"
			    "fo"
			    "\0\xff\xfe",
			    9);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		if (text_decode_base64(&out, bad[i], strlen(bad[i])) != -EINVAL)
			fail_msg("'%s' is taken", bad[i]);
	assert_int_equal(text_decode_base64(&small, "Zm9v", 4), -EFBIG);
}

static void base64_comes_back(void **state)
{
	unsigned char data[64];

	(void)state;
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (unsigned char)(i * 37 + 200);
	for (size_t len = 0; len <= sizeof(data); len++) {
		_cleanup_(buf_done) struct buf text = BUF(200), back = BUF(200);

		assert_int_equal(text_append_base64(&text, data, len), 0);
		assert_int_equal(text_decode_base64(&back, buf_str(&text), text.len), 0);
		assert_int_equal(back.len, len);
		assert_memory_equal(buf_str(&back), data, len);
	}
}

/* What a terminal gets to see of each. */
static const struct {
	const char *in;
	const char *out;
} filtered[] = {
	{"plain text\twith\r\nlines\n", "plain text\twith\r\nlines\n"},
	{"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x8f\x9d", "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x8f\x9d"},
	/* Colours pass. */
	{"\x1b[31mred\x1b[0m", "\x1b[31mred\x1b[0m"},
	{"\x1b[1;38;5;196m\x1b[38:2::255:0:0m\x1b[m", "\x1b[1;38;5;196m\x1b[38:2::255:0:0m\x1b[m"},
	/* Cursor moves, clearing, modes, keyboard protocols and reports do not. */
	{"\x1b[2J\x1b[H", "^[[2J^[[H"},
	{"\x1b[1A\x1b[10;20H", "^[[1A^[[10;20H"},
	{"\x1b[?1049h", "^[[?1049h"},
	{"\x1b[>4;1m", "^[[>4;1m"},
	{"\x1b[6n\x1b[c", "^[[6n^[[c"},
	{"\x1b[31 m", "^[[31 m"},
	{"\x1b"
	 "c",
	 "^[c"}, /* reset */
	/* OSC 52 writes the clipboard, OSC 0 the title, DCS and APC carry programs. */
	{"\x1b]52;c;ZXZpbA==\x07", "^[]52;c;ZXZpbA==^G"},
	{"\x1b]52;c;ZXZpbA==\x1b\\", "^[]52;c;ZXZpbA==^[\\"},
	{"\x1b]0;title\x07", "^[]0;title^G"},
	{"\x1bP$q\"p\x1b\\", "^[P$q\"p^[\\"},
	{"\x1b_Ga=d\x1b\\", "^[_Ga=d^[\\"},
	/* An escape within an escape is not a way in. */
	{"\x1b\x1b[2J", "^[^[[2J"},
	{"\x1b[\x1b]52;c;eA==\x07", "^[[^[]52;c;eA==^G"},
	{"\x1b[3\x1b[31m", "^[[3\x1b[31m"},
	/* Too long for a colour. */
	{"\x1b[1111111111111111111111111111111111m", "^[[1111111111111111111111111111111111m"},
	/* C0 and DEL. */
	{"a\bb\x07\x7f\x0e\x0b\x0c", "a^Hb^G^?^N^K^L"},
	/* What turns the direction of writing, and a character beside it. */
	{"\xe2\x80\xaegpj\xe2\x81\xa9\xe2\x80\x94", FFFD "gpj" FFFD "\xe2\x80\x94"},
	/* C1, as a character and as a bare byte: CSI 2J and OSC 52. */
	{"\xc2\x9b"
	 "2J",
	 FFFD "2J"},
	{"\xc2\x80\xc2\x9f\xc2\xa0", FFFD FFFD "\xc2\xa0"},
	{"\x9b"
	 "2J",
	 FFFD "2J"},
	{"\x9d"
	 "52;c;eA==\x9c",
	 FFFD "52;c;eA==" FFFD},
	/* The same bytes within a character are none of that. */
	{"\xe2\x9b\x9d\xc3\x9b", "\xe2\x9b\x9d\xc3\x9b"},
	/* But hiding one behind half a character does not help. */
	{"\xe2\x9b"
	 "2J",
	 FFFD "2J"},
	{"\xe2\x1b[2J", FFFD "^[[2J"},
	{"\xff\x9b", FFFD FFFD},
	{"\xc2\xc2\x9b", FFFD FFFD},
	{"\xf0\x9f\xc3\xa9", FFFD "\xc3\xa9"},
	/* What is unfinished at the end comes out harmless. */
	{"x\x1b", "x^["},
	{"x\x1b[31", "x^[[31"},
	{"x\xe2\x82", "x" FFFD},
	{"x\xc2", "x" FFFD},
};

static void check_filter(const char *in, const char *expected, size_t chunk)
{
	_cleanup_(buf_done) struct buf out = BUF(1000);
	struct text_filter f = {0};
	size_t len = strlen(in);

	for (size_t at = 0; at < len; at += chunk)
		assert_int_equal(text_filter_feed(&f, &out, in + at, size_min(chunk, len - at)), 0);
	assert_int_equal(text_filter_end(&f, &out), 0);
	if (strcmp(buf_str(&out), expected) != 0)
		fail_msg("'%s' in chunks of %zu gave '%s'", expected, chunk, buf_str(&out));
}

/* Cut anywhere, it comes to the same. */
static void filters_terminal_output(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(filtered); i++)
		for (size_t chunk = 1; chunk <= strlen(filtered[i].in); chunk++)
			check_filter(filtered[i].in, filtered[i].out, chunk);
}

static void filters_nul_bytes(void **state)
{
	_cleanup_(buf_done) struct buf out = BUF(100);
	struct text_filter f = {0};

	(void)state;
	assert_int_equal(text_filter_feed(&f, &out, "a\0b", 3), 0);
	assert_string_equal(buf_str(&out), "a^@b");
}

/* The part of a sequence that came is held back, not shown: its end decides. */
static void holds_back(void **state)
{
	_cleanup_(buf_done) struct buf out = BUF(100);
	struct text_filter f = {0};

	(void)state;
	assert_int_equal(text_filter_feed(&f, &out, "x\x1b[3", 4), 0);
	assert_string_equal(buf_str(&out), "x");
	assert_int_equal(text_filter_feed(&f, &out, "1m", 2), 0);
	assert_string_equal(buf_str(&out), "x\x1b[31m");
}

/* Whatever comes in: out come text, the four kinds of white space, and colours. */
static void filters_noise(void **state)
{
	static const char alphabet[] = "\x1b\x1b\x1b[[]m;1?Jc\x9b\x9d\xc2\xe2\x82\xac\x07 \n\\P_";
	struct text_filter f = {0};
	_cleanup_(buf_done) struct buf out = BUF(1 << 20);
	char in[20000];

	(void)state;
	srand(1);
	for (size_t i = 0; i < sizeof(in); i++)
		in[i] = alphabet[(size_t)rand() % (sizeof(alphabet) - 1)];
	assert_int_equal(text_filter_feed(&f, &out, in, sizeof(in)), 0);
	assert_int_equal(text_filter_end(&f, &out), 0);
	assert_true(text_is_utf8(buf_str(&out), out.len));
	assert_non_null(strchr(buf_str(&out), '\x1b')); /* some colours there were */
	for (const char *p = buf_str(&out); *p; p++) {
		if (*p == '\x1b') {
			assert_int_equal(p[1], '[');
			p += 2;
			p += strspn(p, "0123456789;:");
			assert_int_equal(*p, 'm');
		}
		assert_true((unsigned char)*p >= 0x20 || *p == '\n');
		if (*p == '\xc2')
			assert_true((unsigned char)p[1] > 0x9f);
	}
}

static void filter_is_bounded(void **state)
{
	_cleanup_(buf_done) struct buf out = BUF(3);
	struct text_filter f = {0};

	(void)state;
	assert_int_equal(text_filter_feed(&f, &out, "abcd", 4), -EFBIG);
}

static void flattens(void **state)
{
	/* ESC and BEL, a line break, CSI as C1, U+202E; and what only has such bytes in it. */
	char text[] = "a\x1b]0;b\x07\nc\xc2\x9b"
		      "2J\xe2\x80\xae"
		      "d\xc3\x9b\xc2\xa0";
	_cleanup_(buf_done) struct buf out = BUF(256);
	char bare[] = "e\x9b"
		      "f\x1b[31mg";

	(void)state;
	text_flatten(text, strlen(text));
	assert_string_equal(text, "a?]0;b? c??2J???d\xc3\x9b\xc2\xa0");
	assert_int_equal(text_append_harmless(&out, bare, strlen(bare)), 0);
	assert_string_equal(buf_str(&out), "e\xef\xbf\xbd"
					   "f?[31mg");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(knows_utf8),
		cmocka_unit_test(mends_utf8),
		cmocka_unit_test(mending_is_bounded),
		cmocka_unit_test(encodes_base64),
		cmocka_unit_test(encodes_long_base64),
		cmocka_unit_test(decodes_base64),
		cmocka_unit_test(base64_comes_back),
		cmocka_unit_test(filters_terminal_output),
		cmocka_unit_test(filters_nul_bytes),
		cmocka_unit_test(holds_back),
		cmocka_unit_test(filters_noise),
		cmocka_unit_test(filter_is_bounded),
		cmocka_unit_test(flattens),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
