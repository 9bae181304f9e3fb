/*
 * What programs say to the proxy: what is sent on must be one request of the same kind and
 * length for the host that is connected to, and name no other.
 */
#include "fuzz.h"

#include "base/http.h"
#include "egress/proxy_head.h"
#include "egress/sniff.h"

#include <strings.h>

static bool is_host(void *ctx, const char *name)
{
	const struct authority *to = ctx;

	return strcmp(to->host, name) == 0;
}

static void check_host(struct proxy_request *r)
{
	_cleanup_(sniff_freep) struct sniff *s = sniff_new(is_host, &r->to);
	enum sniff_verdict v;

	CHECK(s);
	v = sniff_bytes(s, r->head.data, r->head.len);
	CHECK(v == SNIFF_PASS);
}

static void check_head(const struct http_head *was, struct proxy_request *r)
{
	_cleanup_(http_parser_freep) struct http_parser *p =
		http_parser_new(HTTP_REQUESTS, &(struct http_limits){1 << 20, 1 << 20, 100});
	const struct http_head *h;
	size_t used;

	CHECK(p && http_parse(p, r->head.data, r->head.len, &used) == HTTP_GOT_HEAD);
	CHECK(used == r->head.len);
	h = http_parser_head(p);
	CHECK(strcmp(h->method, was->method) == 0 && h->minor == was->minor);
	CHECK(h->chunked == was->chunked && h->has_length == was->has_length);
	CHECK(h->length == was->length && !h->keep_alive && !h->upgrade);
	CHECK(h->url[0] == '/' || strcmp(h->url, "*") == 0);
	CHECK(http_header_count(h, "host") == 1 && http_header_count(h, "connection") == 1);
	for (size_t i = 0; i < h->n_headers; i++)
		CHECK(strncasecmp(h->headers[i].name, "proxy-", 6) != 0);
	check_host(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(http_parser_freep) struct http_parser *p =
		http_parser_new(HTTP_REQUESTS, &proxy_limits);
	_cleanup_(buf_done) struct buf answer = BUF(4096);
	const struct http_head *h;
	struct proxy_request r;
	const char *why = NULL;
	size_t used;
	int status;

	CHECK(p);
	if (http_parse(p, (const char *)data, size, &used) != HTTP_GOT_HEAD)
		return 0;
	h = http_parser_head(p);
	status = proxy_request_make(h, &r, &why);
	if (status != 0) {
		CHECK(why && (status == 400 || status == 405));
		CHECK(proxy_answer(&answer, status, why) == 0);
		return 0;
	}
	CHECK(r.to.port > 0 && r.to.host[0]);
	if (r.connect)
		CHECK(r.head.len == 0);
	else
		check_head(h, &r);
	proxy_request_done(&r);
	return 0;
}
