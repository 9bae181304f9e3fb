#include "egress/sniff.h"

#include "base/attr.h"
#include "base/buf.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

static bool is_example(void *ctx, const char *name)
{
	(void)ctx;
	return strcmp(name, "example.org") == 0 || strcmp(name, "192.0.2.1") == 0 ||
	       strcmp(name, "2001:db8::1") == 0;
}

static const char *const verdicts[] = {"more", "pass", "done", "differs"};

/*
 * Bytes in pieces of that size, the first one of another; how many of them went on. Those behind
 * the verdict go, or don't, without being shown.
 */
static enum sniff_verdict feed(const char *data, size_t len, size_t first, size_t piece,
			       size_t *ret_gone)
{
	_cleanup_(sniff_freep) struct sniff *s = sniff_new(is_example, NULL);
	enum sniff_verdict v = SNIFF_PASS;
	size_t at = 0;

	assert_non_null(s);
	*ret_gone = 0;
	while (at < len) {
		size_t n = size_min(at == 0 ? first : piece, len - at);

		v = sniff_bytes(s, data + at, n);
		at += n;
		if (v >= SNIFF_DIFFERS)
			return v;
		if (v == SNIFF_DONE) {
			*ret_gone = len;
			return v;
		}
		*ret_gone = at - sniff_held(s);
	}
	return v;
}

/* At every cut, and byte by byte. gone: so many may go, as soon as that can be known. */
static void expect(const char *data, size_t len, enum sniff_verdict expected, size_t gone)
{
	size_t went;
	enum sniff_verdict v = feed(data, len, 1, 1, &went);

	if (v != expected || went != gone)
		fail_msg("%.*s\nbyte by byte: %s, not %s; %zu of %zu went, not %zu", (int)len, data,
			 verdicts[v], verdicts[expected], went, len, gone);
	for (size_t cut = 1; cut <= len; cut++) {
		v = feed(data, len, cut, len, &went);
		if (v != expected || went > gone || (v != SNIFF_DIFFERS && went < gone))
			fail_msg("%.*s\ncut at %zu: %s, not %s; %zu of %zu went, not %zu", (int)len,
				 data, cut, verdicts[v], verdicts[expected], went, len, gone);
	}
}

#define DIFFERS(text) expect(text, sizeof(text) - 1, SNIFF_DIFFERS, 0)
#define DIFFERS_BEHIND(good, text) \
	expect(good text, sizeof(good text) - 1, SNIFF_DIFFERS, sizeof(good) - 1)
#define DONE(text)       expect(text, sizeof(text) - 1, SNIFF_DONE, sizeof(text) - 1)
#define PASS(text)       expect(text, sizeof(text) - 1, SNIFF_PASS, sizeof(text) - 1)
#define MORE(good, text) expect(good text, sizeof(good text) - 1, SNIFF_MORE, sizeof(good) - 1)

/* TLS. */

static void expect_file(const char *name, enum sniff_verdict expected)
{
	char path[100], data[4096];
	size_t len;
	FILE *f;

	(void)snprintf(path, sizeof(path), "tests/fuzz/corpus/sniff/%s", name);
	f = fopen(path, "re");
	assert_non_null(f);
	len = fread(data, 1, sizeof(data), f);
	(void)fclose(f);
	assert_true(len > 100);
	expect(data, len, expected, expected == SNIFF_PASS ? len : 0);
	/* Nothing is known before its last byte. */
	if (expected == SNIFF_PASS)
		expect(data, len - 1, SNIFF_MORE, 0);
}

static void reads_what_clients_send(void **state)
{
	(void)state;
	expect_file("tls-python", SNIFF_PASS);
	expect_file("tls-python-12", SNIFF_PASS);
	expect_file("tls-python-unnamed", SNIFF_PASS);
	expect_file("tls-openssl", SNIFF_PASS);
	expect_file("tls-openssl-unnamed", SNIFF_PASS);
	expect_file("tls-curl", SNIFF_PASS);
	expect_file("tls-node", SNIFF_PASS);
	expect_file("tls-go", SNIFF_PASS);
	expect_file("tls-java", SNIFF_PASS);
	expect_file("tls-records", SNIFF_PASS);
	expect_file("tls-other", SNIFF_DIFFERS);
}

static void add_number(struct buf *b, size_t n, size_t bytes)
{
	while (bytes-- > 0) {
		char c = (char)(n >> (8 * bytes));

		assert_int_equal(buf_append(b, &c, 1), 0);
	}
}

static void add_vector(struct buf *b, const struct buf *what, size_t bytes)
{
	add_number(b, what->len, bytes);
	assert_int_equal(buf_append(b, what->data, what->len), 0);
}

/* The message, without a record around it. rest: what is behind the random bytes. */
static void make_hello(struct buf *ret, const char *rest, size_t len)
{
	_cleanup_(buf_done) struct buf body = BUF(1 << 20);
	static const char version_random[34] = {3, 3};

	assert_int_equal(buf_append(&body, version_random, sizeof(version_random)), 0);
	assert_int_equal(buf_append(&body, rest, len), 0);
	add_number(ret, 1, 1);
	add_vector(ret, &body, 3);
}

static void make_records(struct buf *ret, const struct buf *message, size_t piece)
{
	for (size_t at = 0; at < message->len; at += piece) {
		struct buf part = {.data = message->data + at,
				   .len = size_min(piece, message->len - at)};

		add_number(ret, 0x160301, 3);
		add_vector(ret, &part, 2);
	}
}

static void expect_hello(const char *rest, size_t len, enum sniff_verdict expected)
{
	_cleanup_(buf_done) struct buf message = BUF(1 << 20), records = BUF(1 << 20);

	make_hello(&message, rest, len);
	make_records(&records, &message, 1 << 14);
	expect(records.data, records.len, expected, expected == SNIFF_PASS ? records.len : 0);
}

#define HELLO(rest, verdict) expect_hello(rest, sizeof(rest) - 1, verdict)

/* No session, one suite, no compression. */
#define PLAIN "\0\0\2\x13\1\1\0"

/* A hello with one extension that has these bytes. */
static void expect_names(const char *body, size_t len, enum sniff_verdict expected)
{
	_cleanup_(buf_done) struct buf rest = BUF(1 << 20), extensions = BUF(1 << 20);
	struct buf names = {.data = (char *)body, .len = len};

	assert_int_equal(buf_append(&rest, PLAIN, sizeof(PLAIN) - 1), 0);
	add_number(&extensions, 0, 2);
	add_vector(&extensions, &names, 2);
	add_vector(&rest, &extensions, 2);
	expect_hello(rest.data, rest.len, expected);
}

#define NAMES(body, verdict) expect_names(body, sizeof(body) - 1, verdict)

static void judges_names(void **state)
{
	(void)state;
	NAMES("\0\x0e\0\0\x0b"
	      "example.org",
	      SNIFF_PASS);
	NAMES("\0\x0f\0\0\x0c"
	      "EXAMPLE.org.",
	      SNIFF_PASS);
	NAMES("\0\x0d\0\0\x0a"
	      "other.test",
	      SNIFF_DIFFERS);
	/* No names. */
	NAMES("\0\x0c\0\0\x09"
	      "192.0.2.1",
	      SNIFF_DIFFERS);
	NAMES("\0\x0e\0\0\x0b"
	      "example\0org",
	      SNIFF_DIFFERS);
	NAMES("\0\x10\0\0\x0d"
	      "example.org\0x",
	      SNIFF_DIFFERS);
	NAMES("\0\x0e\0\0\x0b"
	      "example_org",
	      SNIFF_DIFFERS);
	NAMES("\0\3\0\0\0", SNIFF_DIFFERS);
	NAMES("\0\4\0\0\1.", SNIFF_DIFFERS);
	/* Two, none, another kind. */
	NAMES("\0\x1c\0\0\x0b"
	      "example.org\0\0\x0b"
	      "example.org",
	      SNIFF_DIFFERS);
	NAMES("\0\0", SNIFF_DIFFERS);
	NAMES("", SNIFF_DIFFERS);
	NAMES("\0\x0e\1\0\x0b"
	      "example.org",
	      SNIFF_DIFFERS);
	/* Lengths that don't come out even. */
	NAMES("\0\x0f\0\0\x0b"
	      "example.org",
	      SNIFF_DIFFERS);
	NAMES("\0\x0d\0\0\x0b"
	      "example.org",
	      SNIFF_DIFFERS);
	NAMES("\0\x0e\0\0\x0a"
	      "example.org",
	      SNIFF_DIFFERS);
	NAMES("\0\x0e\0\0\x0c"
	      "example.org",
	      SNIFF_DIFFERS);
	NAMES("\0\x0e\0\0\x0b"
	      "example.orgx",
	      SNIFF_DIFFERS);
	NAMES("\0", SNIFF_DIFFERS);
}

static void judges_hellos(void **state)
{
	(void)state;
	HELLO(PLAIN, SNIFF_PASS);
	HELLO(PLAIN "\0\0", SNIFF_PASS);
	HELLO(PLAIN "\0\4\x0a\x0a\0\0", SNIFF_PASS);
	HELLO("\2xy\0\2\x13\1\1\0", SNIFF_PASS);
	/* Two extensions with names. */
	HELLO(PLAIN "\0\x28\0\0\0\x10\0\x0e\0\0\x0b"
		    "example.org\0\0\0\x10\0\x0e\0\0\x0b"
		    "example.org",
	      SNIFF_DIFFERS);
	/* A second name behind what others may take for the end. */
	HELLO(PLAIN "\0\0"
		    "\0\x14\0\0\0\x10\0\x0e\0\0\x0b"
		    "example.org",
	      SNIFF_DIFFERS);
	HELLO(PLAIN "\0", SNIFF_DIFFERS);
	HELLO(PLAIN "\0\3\x0a\x0a\0", SNIFF_DIFFERS);
	HELLO(PLAIN "\0\4\x0a\x0a\0\1", SNIFF_DIFFERS);
	HELLO("", SNIFF_DIFFERS);
	HELLO("\x21xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\0\2\x13\1\1\0", SNIFF_DIFFERS);
	HELLO("\0\0\0\1\0", SNIFF_DIFFERS);
	HELLO("\0\0\3\x13\1\1\1\0", SNIFF_DIFFERS);
	HELLO("\0\0\2\x13\1\0", SNIFF_DIFFERS);
}

static void judges_records(void **state)
{
	(void)state;
	/* No ClientHello, no such version, an empty record, a huge one, one of another kind. */
	DIFFERS("\x16\3\1\0\1\2");
	DIFFERS("\x16\2\0\0\1");
	DIFFERS("\x16\3\1\0\0");
	DIFFERS("\x16\3\1\x40\1");
	DIFFERS("\x16\3\1\0\1\1\x17\3\1\0\1");
	MORE("", "\x16");
	MORE("", "\x16\3\1\0\4\1\0\x40\0");
	DIFFERS("\x16\3\1\0\4\1\0\x40\1");
}

/* A hello of that size, in records of that size. */
static void expect_large(size_t size, size_t piece, enum sniff_verdict expected)
{
	_cleanup_(buf_done) struct buf message = BUF(1 << 20), records = BUF(1 << 20),
				       rest = BUF(1 << 20), padding = BUF(1 << 20);
	size_t gone;

	assert_int_equal(buf_append(&rest, PLAIN, sizeof(PLAIN) - 1), 0);
	/* 34 bytes in front of it, and its own 2 and 4 of the one extension. */
	while (padding.len < size - 34 - rest.len - 6)
		add_number(&padding, 'x', 1);
	add_number(&rest, padding.len + 4, 2);
	add_number(&rest, 21, 2);
	add_vector(&rest, &padding, 2);
	make_hello(&message, rest.data, rest.len);
	assert_int_equal(message.len, size + 4);
	make_records(&records, &message, piece);
	assert_int_equal(feed(records.data, records.len, 1, 1, &gone), expected);
	assert_int_equal(gone, expected == SNIFF_PASS ? records.len : 0);
	assert_int_equal(feed(records.data, records.len, records.len, 1, &gone), expected);
}

/* Of a name, with an extension of no content; in records of that size. */
static void add_hello(struct buf *to, const char *name, unsigned extension, size_t piece)
{
	_cleanup_(buf_done) struct buf message = BUF(1 << 20), rest = BUF(1 << 20),
				       extensions = BUF(1 << 20);

	assert_int_equal(buf_append(&rest, PLAIN, sizeof(PLAIN) - 1), 0);
	add_number(&extensions, 0, 2);
	add_number(&extensions, strlen(name) + 5, 2);
	add_number(&extensions, strlen(name) + 3, 2);
	add_number(&extensions, 0, 1);
	add_number(&extensions, strlen(name), 2);
	assert_int_equal(buf_append_str(&extensions, name), 0);
	add_number(&extensions, extension, 2);
	add_number(&extensions, 0, 2);
	add_vector(&rest, &extensions, 2);
	make_hello(&message, rest.data, rest.len);
	make_records(to, &message, piece);
}

#define EARLY_DATA 42
#define PADDING    21

/* A hello that is good, these records, and another hello. */
static void expect_second(unsigned extension, const char *records, size_t len, const char *name,
			  size_t piece, enum sniff_verdict expected)
{
	_cleanup_(buf_done) struct buf all = BUF(1 << 20);
	size_t before;

	add_hello(&all, "example.org", extension, 1 << 14);
	assert_int_equal(buf_append(&all, records, len), 0);
	before = all.len;
	add_hello(&all, name, PADDING, piece);
	expect(all.data, all.len, expected, expected == SNIFF_DIFFERS ? before : all.len);
}

#define SECOND(extension, records, name, piece, expected) \
	expect_second(extension, records, sizeof(records) - 1, name, piece, expected)

#define CIPHER_CHANGES "\x14\3\3\0\1\1"
#define WARNING        "\x15\3\3\0\2\1\x5a"
#define DATA           "\x17\3\3\0\5hello"
#define KEYS           "\x16\3\3\0\5\x10\0\0\1x"
#define FINISHED       "\x16\3\3\0\x14\1\0\0\0\0ABCDEFGHIJKLMNO"

static void sees_a_second_hello(void **state)
{
	(void)state;
	SECOND(PADDING, "", "other.test", 1 << 14, SNIFF_DIFFERS);
	SECOND(PADDING, CIPHER_CHANGES, "other.test", 1 << 14, SNIFF_DIFFERS);
	SECOND(PADDING, CIPHER_CHANGES WARNING CIPHER_CHANGES, "other.test", 1 << 14,
	       SNIFF_DIFFERS);
	SECOND(PADDING, CIPHER_CHANGES, "other.test", 1, SNIFF_DIFFERS);
	SECOND(EARLY_DATA, DATA DATA, "other.test", 1 << 14, SNIFF_DIFFERS);
	SECOND(EARLY_DATA, CIPHER_CHANGES DATA, "example.org", 1, SNIFF_PASS);
	SECOND(PADDING, CIPHER_CHANGES, "example.org", 1 << 14, SNIFF_PASS);
	/* From there on nobody takes it for one. */
	SECOND(PADDING, DATA, "other.test", 1 << 14, SNIFF_DONE);
	SECOND(PADDING, KEYS CIPHER_CHANGES, "other.test", 1 << 14, SNIFF_DONE);
	SECOND(PADDING, CIPHER_CHANGES FINISHED, "other.test", 1 << 14, SNIFF_DONE);
}

static void nothing_is_between(void **state)
{
	_cleanup_(buf_done) struct buf all = BUF(1 << 20), hello = BUF(1 << 20);
	size_t gone;

	(void)state;
	add_hello(&all, "example.org", PADDING, 1 << 14);
	add_hello(&hello, "other.test", PADDING, 10);
	/* A hello that something else cuts in two. */
	assert_int_equal(buf_append(&all, hello.data, 15), 0);
	assert_int_equal(buf_append(&all, CIPHER_CHANGES, sizeof(CIPHER_CHANGES) - 1), 0);
	assert_int_equal(feed(all.data, all.len, 1, 1, &gone), SNIFF_DIFFERS);
	/* What is no record. */
	all.len -= 15 + sizeof(CIPHER_CHANGES) - 1;
	assert_int_equal(buf_append(&all, "GET / HTTP/1.1\r\n", 16), 0);
	assert_int_equal(feed(all.data, all.len, 1, 1, &gone), SNIFF_DIFFERS);
}

static void has_limits(void **state)
{
	static char head[SNIFF_HELD_MAX + 100];
	size_t gone;

	(void)state;
	expect_large(12 << 10, 1 << 14, SNIFF_PASS);
	expect_large(12 << 10, 100, SNIFF_PASS);
	expect_large(16 << 10, 1 << 14, SNIFF_TOO_LONG);
	expect_large((16 << 10) + 1, 1 << 14, SNIFF_DIFFERS);
	/* Six bytes for each. */
	expect_large(2 << 10, 1, SNIFF_PASS);
	expect_large(4 << 10, 1, SNIFF_TOO_LONG);

	memset(head, 'x', sizeof(head));
	assert_int_equal(feed(head, SNIFF_HELD_MAX, 1, 1000, &gone), SNIFF_MORE);
	assert_int_equal(feed(head, SNIFF_HELD_MAX + 1, 1, 1000, &gone), SNIFF_TOO_LONG);
	assert_int_equal(gone, 0);
	memcpy(head, "GET /", 5);
	assert_int_equal(feed(head, SNIFF_HELD_MAX, 1, 1000, &gone), SNIFF_MORE);
	assert_int_equal(feed(head, SNIFF_HELD_MAX + 1, 1, 1000, &gone), SNIFF_TOO_LONG);
	assert_int_equal(gone, 0);
}

/* HTTP. */

#define HOST "Host: example.org\r\n"
#define GOOD "GET / HTTP/1.1\r\n" HOST "\r\n"
#define EVIL "GET / HTTP/1.1\r\nHost: other.test\r\n\r\n"

static void reads_every_request(void **state)
{
	(void)state;
	PASS(GOOD);
	PASS(GOOD GOOD GOOD);
	PASS("GET / HTTP/1.1\r\nhOST:EXAMPLE.ORG.:80 \r\n\r\n");
	PASS("OPTIONS * HTTP/1.1\r\n" HOST "\r\n");
	PASS("POST / HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\nhello" GOOD);
	PASS("POST / HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\nhello\r\n");
	PASS("PUT / HTTP/1.1\r\n" HOST
	     "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n" GOOD);
	/* A body goes as it comes, a head when it is whole. */
	PASS("POST / HTTP/1.1\r\n" HOST "Content-Length: 100\r\n\r\nGET / HT");
	PASS("PUT / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n5");
	MORE("", "GET");
	MORE("", "GET / HTTP/1.1\r\n" HOST "\r");
	MORE(GOOD, "GET / HTTP/1.1\r\n" HOST);
	DIFFERS(EVIL);
	DIFFERS_BEHIND(GOOD, EVIL);
	DIFFERS_BEHIND(GOOD GOOD, EVIL);
	DIFFERS_BEHIND("POST / HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\nhello", EVIL);
	DIFFERS_BEHIND("GET / HTTP/1.1\r\nConnection: close\r\n" HOST "\r\n", EVIL);
	DIFFERS_BEHIND("HEAD / HTTP/1.1\r\n" HOST "\r\n", EVIL);
}

static void needs_one_host(void **state)
{
	(void)state;
	DIFFERS("GET / HTTP/1.1\r\n\r\n");
	DIFFERS("GET / HTTP/1.1\r\nHost:\r\n\r\n");
	DIFFERS("GET / HTTP/1.1\r\n" HOST HOST "\r\n");
	DIFFERS("GET / HTTP/1.1\r\n" HOST "Host: other.test\r\n\r\n");
	DIFFERS("GET / HTTP/1.0\r\n" HOST "Host: other.test\r\n\r\n");
	DIFFERS("GET / HTTP/1.1\r\nHost: example.org, other.test\r\n\r\n");
	DIFFERS("GET / HTTP/1.1\r\nHost: other.test@example.org\r\n\r\n");
	DIFFERS("GET / HTTP/1.1\r\nHost: example.org:x\r\n\r\n");
	DIFFERS("GET / HTTP/1.1\r\nHost: example.org:\r\n\r\n");
	DIFFERS("GET / HTTP/1.1\r\nHost: example.org:65536\r\n\r\n");
	DIFFERS("GET / HTTP/1.1\r\nHost: example.org/\r\n\r\n");
	DIFFERS("GET / HTTP/1.1\r\nHost: notexample.org\r\n\r\n");
	DIFFERS("GET / HTTP/1.1\r\nHost: example.org.other.test\r\n\r\n");
	DIFFERS("GET / HTTP/1.0\r\nHost: other.test\r\n\r\n");
	/* It gets what the server has for those that name none. */
	PASS("GET / HTTP/1.0\r\n\r\n");
}

static void reads_targets(void **state)
{
	(void)state;
	PASS("GET http://example.org/ HTTP/1.1\r\n" HOST "\r\n");
	PASS("GET HTTPS://EXAMPLE.org:80?x HTTP/1.1\r\n" HOST "\r\n");
	PASS("GET http://example.org HTTP/1.1\r\n\r\n");
	PASS("GET //other.test/ HTTP/1.1\r\n" HOST "\r\n");
	DIFFERS("GET http://other.test/ HTTP/1.1\r\n" HOST "\r\n");
	DIFFERS("GET http://other.test/ HTTP/1.0\r\n\r\n");
	DIFFERS("GET http://example.org/ HTTP/1.1\r\nHost: other.test\r\n\r\n");
	DIFFERS("GET http://example.org/ HTTP/1.1\r\nHost: 192.0.2.1\r\n\r\n");
	DIFFERS("GET http://example.org@other.test/ HTTP/1.1\r\n" HOST "\r\n");
	DIFFERS("GET http://other.test#example.org/ HTTP/1.1\r\n" HOST "\r\n");
	DIFFERS("GET ftp://example.org/ HTTP/1.1\r\n" HOST "\r\n");
	DIFFERS("GET example.org HTTP/1.1\r\n" HOST "\r\n");
	DIFFERS("CONNECT example.org:443 HTTP/1.1\r\n" HOST "\r\n");
	DIFFERS("CONNECT other.test:443 HTTP/1.1\r\nHost: other.test:443\r\n\r\n");
}

static void reads_addresses(void **state)
{
	(void)state;
	PASS("GET / HTTP/1.1\r\nHost: 192.0.2.1\r\n\r\n");
	PASS("GET / HTTP/1.1\r\nHost: 192.0.2.1:80\r\n\r\n");
	PASS("GET / HTTP/1.1\r\nHost: [2001:DB8:0::1]:80\r\n\r\n");
	PASS("GET / HTTP/1.1\r\nHost: [2001:db8::1]\r\n\r\n");
	DIFFERS("GET / HTTP/1.1\r\nHost: 192.0.2.2\r\n\r\n");
	DIFFERS("GET / HTTP/1.1\r\nHost: 2001:db8::1\r\n\r\n");
	DIFFERS("GET / HTTP/1.1\r\nHost: [2001:db8::1\r\n\r\n");
	DIFFERS("GET / HTTP/1.1\r\nHost: [2001:db8::1]80\r\n\r\n");
	DIFFERS("GET / HTTP/1.1\r\nHost: [192.0.2.1]\r\n\r\n");
	DIFFERS("GET / HTTP/1.1\r\nHost: [example.org]\r\n\r\n");
	DIFFERS("GET / HTTP/1.1\r\nHost: []\r\n\r\n");
	DIFFERS("GET / HTTP/1.1\r\nHost: 0xc0000201\r\n\r\n");
}

static void refuses_what_can_be_read_twice(void **state)
{
	(void)state;
	DIFFERS("GET / HTTP/1.1\r\nHost : other.test\r\n" HOST "\r\n");
	DIFFERS("GET / HTTP/1.1\r\nX: y\r\n Host: other.test\r\n" HOST "\r\n");
	DIFFERS("GET / HTTP/1.1\nHost: other.test\n\n");
	DIFFERS("GET / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n" HOST
		"\r\n");
	DIFFERS("GET  / HTTP/1.1\r\n" HOST "\r\n");
	DIFFERS("GET http://other.test/\r\n");
	DIFFERS("GET /\r\nHost: other.test\r\n\r\n");
	/* Methods that others take for one. */
	DIFFERS("get / HTTP/1.1\r\nHost: other.test\r\n\r\n");
	DIFFERS("x / http/1.1\r\nHost: other.test\r\n\r\n");
	DIFFERS("BREW / HTTP/1.1\r\n" HOST "\r\n");
	DIFFERS("SSH-2.0-x / HTTP/1.1\r\nHost: other.test\r\n\r\n");
	DIFFERS("GET\t/\tHTTP/1.1\r\nHost: other.test\r\n\r\n");
	DIFFERS("GET\v/ HTTP/1.1\r\nHost: other.test\r\n\r\n");
	DIFFERS("GET\f/ HTTP/1.1\r\nHost: other.test\r\n\r\n");
	DIFFERS("GET\x1c/\x1fHTTP/1.1\r\nHost: other.test\r\n\r\n");
	DIFFERS("GET\x85/ HTTP/1.1\r\nHost: other.test\r\n\r\n");
	DIFFERS("GET\xa0/ HTTP/1.1\r\nHost: other.test\r\n\r\n");
	DIFFERS("\f" EVIL);
	DIFFERS(" " EVIL);
	DIFFERS("\t" EVIL);
	DIFFERS("\n" EVIL);
	DIFFERS("\r\r\n" EVIL);
	DIFFERS("\r\n\r\n" EVIL);
	PASS("\r\n\r\n" GOOD);
}

#define UPGRADE "GET / HTTP/1.1\r\n" HOST "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"

static void knows_upgrades(void **state)
{
	(void)state;
	PASS(UPGRADE);
	DONE(UPGRADE "\x81\x85");
	DONE(UPGRADE "A\x85");
	DIFFERS("GET / HTTP/1.1\r\nHost: other.test\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n");
	/* The server may not have upgraded. */
	DIFFERS_BEHIND(UPGRADE, EVIL);
	DIFFERS_BEHIND(UPGRADE GOOD, EVIL);
	DIFFERS_BEHIND(UPGRADE UPGRADE, EVIL);
	DIFFERS_BEHIND(UPGRADE, "\r\nx / HTTP/1.1\r\nHost: other.test\r\n\r\n");
	PASS(UPGRADE GOOD);
	/* It may have to another protocol whose names can't be seen, or TLS. */
	DIFFERS_BEHIND(UPGRADE, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
	DIFFERS_BEHIND(UPGRADE, "\x16\3\1\0\1\2");
	/* A body comes first. */
	DIFFERS_BEHIND("POST / HTTP/1.1\r\n" HOST "Connection: Upgrade\r\nUpgrade: x\r\n"
		       "Content-Length: 5\r\n\r\nhello",
		       EVIL);
	DIFFERS("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
}

static void lets_all_else_go(void **state)
{
	(void)state;
	DONE("SSH-2.0-OpenSSH_9.2p1 Debian-2+deb12u3\r\n");
	DONE("SSH-2.0-OpenSSH_9.2p1\n");
	DONE("\0\x0e\x38");
	DONE("\x80\x2e\1\3\1");
	DONE("{\"id\": 1}\n");
	DONE("a\0b");
	DONE("abc\xff");
	DONE("*1\r\n$4\r\nPING\r\n");
	MORE("", "hello");
	MORE("", "\r\n");
}

static void expect_end(const char *text, enum sniff_verdict expected)
{
	_cleanup_(sniff_freep) struct sniff *s = sniff_new(is_example, NULL);
	enum sniff_verdict v;

	assert_non_null(s);
	(void)sniff_bytes(s, text, strlen(text));
	v = sniff_end(s);
	if (v != expected)
		fail_msg("%s: %s, not %s", text, verdicts[v], verdicts[expected]);
}

static void knows_the_end(void **state)
{
	(void)state;
	/* A last line need not have its end. */
	expect_end("hello", SNIFF_DONE);
	expect_end("\r\n", SNIFF_DONE);
	expect_end("GET", SNIFF_DONE);
	/* What some servers would take for whole. */
	expect_end("get / HTTP/1.1", SNIFF_DIFFERS);
	expect_end("GET http://other.test/", SNIFF_MORE);
	expect_end("GET / HTTP/1.1\r\nHost: other.test\r\n", SNIFF_MORE);
	expect_end("\x16\3\1", SNIFF_MORE);
	expect_end("", SNIFF_PASS);
	expect_end(GOOD, SNIFF_PASS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_what_clients_send),
		cmocka_unit_test(judges_names),
		cmocka_unit_test(judges_hellos),
		cmocka_unit_test(sees_a_second_hello),
		cmocka_unit_test(nothing_is_between),
		cmocka_unit_test(judges_records),
		cmocka_unit_test(has_limits),
		cmocka_unit_test(reads_every_request),
		cmocka_unit_test(needs_one_host),
		cmocka_unit_test(reads_targets),
		cmocka_unit_test(reads_addresses),
		cmocka_unit_test(refuses_what_can_be_read_twice),
		cmocka_unit_test(knows_upgrades),
		cmocka_unit_test(lets_all_else_go),
		cmocka_unit_test(knows_the_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
