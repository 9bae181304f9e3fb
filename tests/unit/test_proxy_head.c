#include "egress/proxy_head.h"

#include "base/attr.h"

#include <stdint.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

static int make(const char *text, struct proxy_request *ret, const char **ret_why)
{
	_cleanup_(http_parser_freep) struct http_parser *p =
		http_parser_new(HTTP_REQUESTS, &proxy_limits);
	size_t used;

	assert_non_null(p);
	if (http_parse(p, text, strlen(text), &used) != HTTP_GOT_HEAD)
		fail_msg("%s: %s", text, http_parser_reason(p));
	return proxy_request_make(http_parser_head(p), ret, ret_why);
}

static void expect(const char *text, const char *host, uint16_t port, const char *head)
{
	const char *why = "";
	struct proxy_request r;

	if (make(text, &r, &why) != 0)
		fail_msg("%s: %s", text, why);
	assert_string_equal(r.to.host, host);
	assert_int_equal(r.to.port, port);
	assert_int_equal(r.connect, head == NULL);
	assert_string_equal(buf_str(&r.head), head ? head : "");
	proxy_request_done(&r);
}

static void expect_status(const char *text, int status)
{
	const char *why = NULL;
	struct proxy_request r;
	int got = make(text, &r, &why);

	if (got != status || !why || !why[0])
		fail_msg("%s: %d (%s), not %d", text, got, why, status);
}

#define V " HTTP/1.1\r\n"

static void takes_tunnels(void **state)
{
	(void)state;
	expect("CONNECT example.org:443" V "\r\n", "example.org", 443, NULL);
	expect("CONNECT EXAMPLE.ORG.:22" V "Host: other.test\r\n\r\n", "example.org", 22, NULL);
	expect("CONNECT 192.0.2.1:443 HTTP/1.0\r\n\r\n", "192.0.2.1", 443, NULL);
	expect("CONNECT [2001:DB8::1]:443" V "\r\n", "2001:db8::1", 443, NULL);
	expect_status("CONNECT example.org" V "\r\n", 400);
	expect_status("CONNECT example.org:0" V "\r\n", 400);
	expect_status("CONNECT 127.1:80" V "\r\n", 400);
	expect_status("CONNECT 0x7f000001:80" V "\r\n", 400);
	expect_status("CONNECT 2001:db8::1:443" V "\r\n", 400);
	expect_status("CONNECT a@example.org:443" V "\r\n", 400);
	expect_status("CONNECT example.org:443" V "Content-Length: 5\r\n\r\n", 400);
	expect_status("CONNECT example.org:443" V "Transfer-Encoding: chunked\r\n\r\n", 400);
}

#define CLOSE "Connection: close\r\n\r\n"

static void makes_requests_anew(void **state)
{
	(void)state;
	expect("GET http://example.org/a?b=http://c" V "\r\n", "example.org", 80,
	       "GET /a?b=http://c" V "Host: example.org\r\n" CLOSE);
	expect("GET http://example.org HTTP/1.0\r\n\r\n", "example.org", 80,
	       "GET / HTTP/1.0\r\nHost: example.org\r\n" CLOSE);
	expect("GET http://example.org?x" V "\r\n", "example.org", 80,
	       "GET /?x" V "Host: example.org\r\n" CLOSE);
	expect("GET HTTP://Example.ORG.:8080/" V "\r\n", "example.org", 8080,
	       "GET /" V "Host: example.org:8080\r\n" CLOSE);
	expect("GET http://example.org:80/" V "\r\n", "example.org", 80,
	       "GET /" V "Host: example.org\r\n" CLOSE);
	expect("GET http://192.0.2.1/" V "\r\n", "192.0.2.1", 80,
	       "GET /" V "Host: 192.0.2.1\r\n" CLOSE);
	expect("GET http://[2001:db8::1]:81/" V "\r\n", "2001:db8::1", 81,
	       "GET /" V "Host: [2001:db8::1]:81\r\n" CLOSE);
	expect("OPTIONS http://example.org" V "\r\n", "example.org", 80,
	       "OPTIONS *" V "Host: example.org\r\n" CLOSE);
	expect("OPTIONS http://example.org/" V "\r\n", "example.org", 80,
	       "OPTIONS /" V "Host: example.org\r\n" CLOSE);
}

static void keeps_what_is_the_hosts(void **state)
{
	(void)state;
	expect("GET http://example.org/" V "Host: other.test\r\nHOST: x\r\nAccept: */*\r\n"
	       "Connection: keep-alive, x-hop\r\nconnection: X-Hop-2\r\nX-Hop: 1\r\nx-hop-2: 2\r\n"
	       "Keep-Alive: 5\r\nProxy-Connection: keep-alive\r\nProxy-Authorization: Basic eA==\r\n"
	       "TE: trailers\r\nTrailer: x\r\nExpect: 100-continue\r\nAuthorization: y\r\n\r\n",
	       "example.org", 80,
	       "GET /" V "Host: example.org\r\nAccept: */*\r\nExpect: 100-continue\r\n"
	       "Authorization: y\r\n" CLOSE);
	expect("GET http://example.org/" V "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
	       "example.org", 80, "GET /" V "Host: example.org\r\n" CLOSE);
	/* Whoever could take these away would make a second request of the body. */
	expect("POST http://example.org/" V
	       "Connection: content-length\r\nContent-Length: 5\r\n\r\n",
	       "example.org", 80, "POST /" V "Host: example.org\r\nContent-Length: 5\r\n" CLOSE);
	expect("POST http://example.org/" V
	       "Connection: Transfer-Encoding\r\nTransfer-Encoding: chunked\r\n\r\n",
	       "example.org", 80,
	       "POST /" V "Host: example.org\r\nTransfer-Encoding: chunked\r\n" CLOSE);
}

static void refuses_the_rest(void **state)
{
	(void)state;
	expect_status("GET /" V "Host: example.org\r\n\r\n", 400);
	expect_status("OPTIONS *" V "Host: example.org\r\n\r\n", 400);
	expect_status("GET https://example.org/" V "\r\n", 400);
	expect_status("GET ftp://example.org/" V "\r\n", 400);
	expect_status("GET http://user:password@example.org/" V "\r\n", 400);
	expect_status("GET http://example.org@other.test/" V "\r\n", 400);
	expect_status("GET http://example.org/#x" V "\r\n", 400);
	expect_status("GET http://2130706433/" V "\r\n", 400);
	expect_status("GET http://0177.0.0.1/" V "\r\n", 400);
	expect_status("GET http://example.org:/" V "\r\n", 400);
	expect_status("GET http://[::1/" V "\r\n", 400);
	expect_status("TRACE http://example.org/" V "\r\n", 405);
}

static void answers(void **state)
{
	_cleanup_(buf_done) struct buf out = BUF(4096);

	(void)state;
	assert_int_equal(proxy_answer(&out, 403, egress_why_text(WHY_NOT_LISTED)), 0);
	assert_string_equal(buf_str(&out), "HTTP/1.1 403 Forbidden\r\nContent-Type: text/plain\r\n"
					   "Content-Length: 23\r\nConnection: close\r\n\r\n"
					   "cay: not in allow list\n");
	for (enum egress_why why = WHY_NONE + 1; why < WHYS; why++) {
		int status = proxy_status(why);

		assert_int_equal(status == 403, why < WHY_NO_SUCH_NAME);
		assert_true(http_status_text(status)[0]);
	}
	assert_int_equal(proxy_status(WHY_REFUSED), 502);
	assert_int_equal(proxy_status(WHY_TIMED_OUT), 504);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(takes_tunnels),
		cmocka_unit_test(makes_requests_anew),
		cmocka_unit_test(keeps_what_is_the_hosts),
		cmocka_unit_test(refuses_the_rest),
		cmocka_unit_test(answers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
