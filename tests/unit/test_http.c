#include "base/http.h"

#include "base/attr.h"
#include "base/buf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static const struct http_limits limits = {
	.line_bytes = 200, .head_bytes = 1000, .header_lines = 10};

/*
 * Feeds bytes, step at a time, and writes down what comes: "H" and the method or
 * status, "B" and the body, "E", or the status that a bad message gets.
 */
static void feed(struct http_parser *p, const char *data, size_t len, size_t step, struct buf *seen)
{
	while (len > 0) {
		size_t n = size_min(step, len), used, body_len;
		enum http_event e;

		do {
			const char *body;

			e = http_parse(p, data, n, &used);
			data += used;
			len -= used;
			n -= used;
			switch (e) {
			case HTTP_GOT_HEAD:
				(void)buf_printf(seen, "H%d", http_parser_head(p)->status);
				break;
			case HTTP_GOT_BODY:
				body = http_parser_body(p, &body_len);
				(void)buf_append(seen, body, body_len);
				break;
			case HTTP_GOT_END:
				(void)buf_append_str(seen, "E");
				http_parser_reset(p);
				break;
			case HTTP_BAD:
				(void)buf_printf(seen, "!%d", http_parser_status(p));
				return;
			case HTTP_MORE:
				assert_int_equal(n, 0);
				break;
			}
		} while (e != HTTP_MORE);
	}
}

/* The same must come of it however the bytes are cut. */
static void expect_of(enum http_kind kind, const char *data, size_t len, const char *expected)
{
	for (size_t step = 1; step <= len; step = step < 8 ? step + 1 : step * 2 + 1) {
		_cleanup_(http_parser_freep) struct http_parser *p = http_parser_new(kind, &limits);
		_cleanup_(buf_done) struct buf seen = BUF(1 << 20);

		assert_non_null(p);
		feed(p, data, len, step, &seen);
		if (strcmp(buf_str(&seen), expected) != 0)
			fail_msg("%.*s\nin steps of %zu: \"%s\", not \"%s\" (%s)", (int)len, data,
				 step, buf_str(&seen), expected, http_parser_reason(p));
	}
}

#define EXPECT(text, expected) expect_of(HTTP_REQUESTS, text, sizeof(text) - 1, expected)
#define ANSWER(text, expected) expect_of(HTTP_RESPONSES, text, sizeof(text) - 1, expected)

static void takes_requests(void **state)
{
	(void)state;
	EXPECT("GET / HTTP/1.1\r\nHost: a\r\n\r\n", "H0E");
	EXPECT("GET / HTTP/1.0\r\n\r\n", "H0E");
	EXPECT("\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", "H0E");
	EXPECT("PUT /a?b=c HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello", "H0helloE");
	EXPECT("PUT / HTTP/1.1\r\nContent-Length: 0\r\n\r\n", "H0E");
	EXPECT("PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
	       "5\r\nhello\r\n00A\r\n, world!!!\r\n0\r\n\r\n",
	       "H0hello, world!!!E");
	EXPECT("POST / HTTP/1.1\r\nTransfer-Encoding: CHUNKED\r\n\r\n0\r\n\r\n", "H0E");
	EXPECT("GET /1 HTTP/1.1\r\n\r\nGET /2 HTTP/1.1\r\n\r\nPUT /3 HTTP/1.1\r\n"
	       "Content-Length: 1\r\n\r\nxGET /4 HTTP/1.1\r\n\r\n",
	       "H0EH0EH0xEH0E");
	/* What comes behind a request that says close is the caller's not to look at. */
	EXPECT("GET /1 HTTP/1.1\r\nConnection: close\r\n\r\nGET /2 HTTP/1.1\r\n\r\n", "H0EH0E");
	EXPECT("GET / HTTP/1.1\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\n", "H0E");
}

static void refuses_two_readings(void **state)
{
	(void)state;
	EXPECT("PUT / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", "!400");
	EXPECT("PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n", "!400");
	EXPECT("PUT / HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n", "!400");
	EXPECT("PUT / HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", "!400");
	EXPECT("PUT / HTTP/1.1\r\nContent-Length: 5, 5\r\n\r\n", "!400");
	EXPECT("PUT / HTTP/1.1\r\nContent-Length: +5\r\n\r\n", "!400");
	EXPECT("PUT / HTTP/1.1\r\nContent-Length: -5\r\n\r\n", "!400");
	EXPECT("PUT / HTTP/1.1\r\nContent-Length: 0x5\r\n\r\n", "!400");
	EXPECT("PUT / HTTP/1.1\r\nContent-Length: 5 5\r\n\r\n", "!400");
	EXPECT("PUT / HTTP/1.1\r\nContent-Length:\r\n\r\n", "!400");
	EXPECT("PUT / HTTP/1.1\r\nContent-Length: 18446744073709551616\r\n\r\n", "!400");
	EXPECT("PUT / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", "!400");
	EXPECT("PUT / HTTP/1.1\r\nTransfer-Encoding: chunked, identity\r\n\r\n", "!400");
	EXPECT("PUT / HTTP/1.1\r\nTransfer-Encoding: identity\r\n\r\n", "!400");
	EXPECT("PUT / HTTP/1.1\r\nTransfer-Encoding: xchunked\r\n\r\n", "!400");
	EXPECT("PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
	       "!400");
	EXPECT("PUT / HTTP/1.1\r\nTransfer-Encoding:\r\n\r\n", "!400");
	EXPECT("PUT / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", "!400");
}

static void refuses_bad_lines(void **state)
{
	(void)state;
	EXPECT("GET / HTTP/1.1\nHost: a\n\n", "!400");
	EXPECT("GET / HTTP/1.1\r\nHost: a\n\r\n", "!400");
	EXPECT("GET / HTTP/1.1\r\nHost: a\r\n\n", "!400");
	EXPECT("GET / HTTP/1.1\r\nHost: a\rX: b\r\n\r\n", "!400");
	EXPECT("GET / HTTP/1.1\r\nHost: a\r\r\n\r\n", "!400");
	EXPECT("GET / HTTP/1.1\r\nHost: a\r\n b\r\n\r\n", "!400");
	EXPECT("GET / HTTP/1.1\r\nHost: a\r\n\tb\r\n\r\n", "!400");
	EXPECT("GET / HTTP/1.1\r\n Host: a\r\n\r\n", "!400");
	EXPECT("GET / HTTP/1.1\r\nHost : a\r\n\r\n", "!400");
	EXPECT("GET / HTTP/1.1\r\nHo st: a\r\n\r\n", "!400");
	EXPECT("GET / HTTP/1.1\r\n: a\r\n\r\n", "!400");
	EXPECT("GET / HTTP/1.1\r\nHost\r\n\r\n", "!400");
	EXPECT("GET / HTTP/1.1\r\nHost: a\0b\r\n\r\n", "!400");
	EXPECT("GET / HTTP/1.1\r\nHo\0st: a\r\n\r\n", "!400");
	EXPECT("GET /\0 HTTP/1.1\r\n\r\n", "!400");
	EXPECT("GET / HTTP/1.1\r\nHost: a\x01\r\n\r\n", "!400");
	EXPECT("GET / HTTP/1.1\r\nHost: a\x7f\r\n\r\n", "!400");
	EXPECT("GET /\x80 HTTP/1.1\r\n\r\n", "!400");
	EXPECT("GET /a b HTTP/1.1\r\n\r\n", "!400");
	EXPECT("GET  / HTTP/1.1\r\n\r\n", "!400");
	EXPECT(" GET / HTTP/1.1\r\n\r\n", "!400");
	EXPECT("get / HTTP/1.1\r\n\r\n", "!400");
	EXPECT("NONE / HTTP/1.1\r\n\r\n", "!400");
	EXPECT("GET / HTTP/1.1 \r\n\r\n", "!400");
	EXPECT("GET / http/1.1\r\n\r\n", "!400");
	EXPECT("\x16\x03\x01\x02", "!400");
}

static void refuses_other_versions(void **state)
{
	(void)state;
	EXPECT("GET /\r\n\r\n", "!400");
	EXPECT("GET / HTTP/0.9\r\n\r\n", "!505");
	EXPECT("GET / HTTP/2.0\r\n\r\n", "!505");
	EXPECT("GET / HTTP/1.2\r\n\r\n", "!400");
	EXPECT("GET / HTTP/3.0\r\n\r\n", "!400");
	EXPECT("GET / HTTP/11.1\r\n\r\n", "!400");
	EXPECT("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "!400");
	EXPECT("GET / RTSP/1.0\r\n\r\n", "!400");
	EXPECT("SOURCE / ICE/1.0\r\n\r\n", "!400");
}

#define CHUNKED "PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"

static void refuses_bad_chunks(void **state)
{
	(void)state;
	EXPECT(CHUNKED "5;a=b\r\nhello\r\n0\r\n\r\n", "H0!400");
	EXPECT(CHUNKED "5;\r\nhello\r\n0\r\n\r\n", "H0!400");
	EXPECT(CHUNKED "5 \r\nhello\r\n0\r\n\r\n", "H0!400");
	EXPECT(CHUNKED " 5\r\nhello\r\n0\r\n\r\n", "H0!400");
	EXPECT(CHUNKED "0x5\r\nhello\r\n0\r\n\r\n", "H0!400");
	EXPECT(CHUNKED "-5\r\nhello\r\n0\r\n\r\n", "H0!400");
	EXPECT(CHUNKED "+5\r\nhello\r\n0\r\n\r\n", "H0!400");
	EXPECT(CHUNKED "g\r\nhello\r\n0\r\n\r\n", "H0!400");
	EXPECT(CHUNKED "\r\nhello\r\n0\r\n\r\n", "H0!400");
	EXPECT(CHUNKED "5\nhello\r\n0\r\n\r\n", "H0!400");
	EXPECT(CHUNKED "5\rhello\r\n0\r\n\r\n", "H0!400");
	EXPECT(CHUNKED "0\r\n\n", "H0!400");
	EXPECT(CHUNKED "0\n\r\n", "H0!400");
	EXPECT(CHUNKED "0\r\nX: y\r\n\r\n", "H0!400");
	EXPECT(CHUNKED "0\r\nContent-Length: 5\r\n\r\n", "H0!400");
	EXPECT(CHUNKED "10000000000000000\r\nx", "H0!400");
	EXPECT(CHUNKED "fffffffffffffffff\r\nx", "H0!400");
}

/* The bytes that don't belong to the chunk may be seen only behind its data. */
static void refuses_a_bad_end_of_a_chunk(void **state)
{
	static const char *const ends[] = {"hello\n0\r\n\r\n", "helloX\r\n0\r\n\r\n",
					   "hello0\r\n\r\n", "hello\r0\r\n\r\n"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
		_cleanup_(http_parser_freep) struct http_parser *p =
			http_parser_new(HTTP_REQUESTS, &limits);
		_cleanup_(buf_done) struct buf seen = BUF(1000), text = BUF(1000);

		assert_int_equal(buf_printf(&text, CHUNKED "5\r\n%s", ends[i]), 0);
		feed(p, text.data, text.len, text.len, &seen);
		assert_string_equal(buf_str(&seen), "H0hello!400");
	}
}

static void has_limits(void **state)
{
	_cleanup_(buf_done) struct buf text = BUF(1 << 20);

	(void)state;
	(void)buf_append_str(&text, "GET /");
	for (int i = 0; i < 200; i++)
		(void)buf_append_str(&text, "x");
	expect_of(HTTP_REQUESTS, text.data, text.len, "!414");
	text.len = 0;
	(void)buf_append_str(&text, "GET / HTTP/1.1\r\n");
	for (int i = 0; i < 10; i++)
		(void)buf_printf(&text, "H%d: x\r\n", i);
	(void)buf_append_str(&text, "\r\n");
	expect_of(HTTP_REQUESTS, text.data, text.len, "H0E");
	text.len -= 2;
	(void)buf_append_str(&text, "I: x\r\n\r\n");
	expect_of(HTTP_REQUESTS, text.data, text.len, "!431");
	text.len = 0;
	(void)buf_append_str(&text, "GET / HTTP/1.1\r\nA: ");
	for (int i = 0; i < 1000; i++)
		(void)buf_append_str(&text, "x");
	expect_of(HTTP_REQUESTS, text.data, text.len, "!431");
	text.len = 0;
	for (int i = 0; i < 1000; i++)
		(void)buf_append_str(&text, "\r\n");
	expect_of(HTTP_REQUESTS, text.data, text.len, "!431");
}

static void takes_responses(void **state)
{
	(void)state;
	ANSWER("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "H200okE");
	ANSWER("HTTP/1.1 200 \r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
	       "H200okE");
	ANSWER("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n", "H100EH204E");
	ANSWER("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
	       "Connection: Upgrade\r\n\r\n",
	       "H101E");
	ANSWER("HTTP/1.1 200 OK\r\n\r\neverything", "H200everything");
	ANSWER("HTTP/1.1 200 OK\nContent-Length: 2\n\nok", "!400");
	ANSWER("HTTP/1.1 2000 OK\r\n\r\n", "!400");
	ANSWER("HTTP/2.0 200 OK\r\n\r\n", "!505");
}

static enum http_event eof_after(enum http_kind kind, const char *text)
{
	_cleanup_(http_parser_freep) struct http_parser *p = http_parser_new(kind, &limits);
	_cleanup_(buf_done) struct buf seen = BUF(1000);

	feed(p, text, strlen(text), strlen(text), &seen);
	return http_parse_eof(p);
}

static void knows_the_end_of_the_stream(void **state)
{
	(void)state;
	assert_int_equal(eof_after(HTTP_RESPONSES, "HTTP/1.1 200 OK\r\n\r\nall"), HTTP_GOT_END);
	assert_int_equal(
		eof_after(HTTP_RESPONSES, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nal"),
		HTTP_BAD);
	assert_int_equal(eof_after(HTTP_RESPONSES, ""), HTTP_MORE);
	assert_int_equal(eof_after(HTTP_REQUESTS, "GET / HT"), HTTP_BAD);
	assert_int_equal(eof_after(HTTP_REQUESTS, "GET / HTTP/1.1\r\n\r\n"), HTTP_MORE);
	assert_int_equal(eof_after(HTTP_REQUESTS, CHUNKED "5\r\nhello\r\n"), HTTP_BAD);
}

static void gives_the_head(void **state)
{
	static const char text[] = "POST /a/b?c=d HTTP/1.1\r\nHost: x\r\nX-Two:  a b \t \r\n"
				   "x-two: second\r\nEmpty:\r\nContent-Length: 7\r\n"
				   "Connection: close\r\n\r\n";
	_cleanup_(http_parser_freep) struct http_parser *p =
		http_parser_new(HTTP_REQUESTS, &limits);
	const struct http_head *h = http_parser_head(p);
	size_t used;

	(void)state;
	assert_false(http_parser_begun(p));
	assert_int_equal(http_parse(p, text, sizeof(text) - 1, &used), HTTP_GOT_HEAD);
	assert_int_equal(used, sizeof(text) - 1);
	assert_true(http_parser_begun(p));
	assert_string_equal(h->method, "POST");
	assert_string_equal(h->url, "/a/b?c=d");
	assert_int_equal(h->n_headers, 6);
	assert_string_equal(h->headers[0].name, "Host");
	assert_string_equal(http_header(h, "HOST"), "x");
	assert_string_equal(http_header(h, "x-two"), "a b");
	assert_string_equal(http_header(h, "empty"), "");
	assert_int_equal(http_header_count(h, "x-two"), 2);
	assert_null(http_header(h, "none"));
	assert_true(h->has_length && h->length == 7 && !h->chunked && !h->keep_alive);
	assert_int_equal(h->minor, 1);
	assert_int_equal(http_parse(p, "", 0, &used), HTTP_MORE);
}

static void finds_words_in_lists(void **state)
{
	(void)state;
	assert_true(http_list_has("keep-alive, Upgrade", "upgrade"));
	assert_true(http_list_has("text/event-stream;q=0.9", "text/event-stream"));
	assert_true(http_list_has("a,,b", "b"));
	assert_false(http_list_has("xupgrade", "upgrade"));
	assert_false(http_list_has("up grade", "grade"));
	assert_false(http_list_has("", "x"));
	assert_false(http_list_has(NULL, "x"));
	assert_string_equal(http_status_text(404), "Not Found");
	assert_string_equal(http_status_text(299), "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(takes_requests),
		cmocka_unit_test(refuses_two_readings),
		cmocka_unit_test(refuses_bad_lines),
		cmocka_unit_test(refuses_other_versions),
		cmocka_unit_test(refuses_bad_chunks),
		cmocka_unit_test(refuses_a_bad_end_of_a_chunk),
		cmocka_unit_test(has_limits),
		cmocka_unit_test(takes_responses),
		cmocka_unit_test(knows_the_end_of_the_stream),
		cmocka_unit_test(gives_the_head),
		cmocka_unit_test(finds_words_in_lists),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
