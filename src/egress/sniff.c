#include "egress/sniff.h"

#include "base/attr.h"
#include "base/buf.h"
#include "base/http.h"
#include "core/domain.h"
#include "egress/authority.h"
#include "egress/client_hello.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum phase { LOOKING, IN_TLS, IN_HTTP, OVER };

/* Of the first line, while looking. */
enum part { FRONT, WORD, REST };

struct sniff {
	sniff_ok_fn *ok;
	void *ctx;
	enum phase phase;
	enum sniff_verdict verdict; /* when OVER */
	size_t held;
	struct buf text; /* LOOKING: all so far; IN_TLS: the handshake message so far */
	/* LOOKING */
	enum part part;
	bool capitals; /* the word has no other letters */
	/* IN_TLS */
	uint8_t header[TLS_RECORD_HEADER];
	size_t header_len;
	size_t left; /* bytes of the record */
	bool again;  /* it was said, and may be once more */
	bool early;  /* with data between */
	bool skips;  /* this record is none of a handshake's */
	/* IN_HTTP */
	struct http_parser *http; /* NULL until then */
	bool in_body, upgrade;    /* of the message being read */
};

struct bytes {
	const char *at;
	size_t len;
};

static const struct http_limits limits = {
	.line_bytes = SNIFF_HELD_MAX,
	.head_bytes = SNIFF_HELD_MAX,
	.header_lines = HTTP_HEADERS_MAX,
};

struct sniff *sniff_new(sniff_ok_fn *ok, void *ctx)
{
	struct sniff *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->ok = ok;
	s->ctx = ctx;
	s->text = BUF(SNIFF_HELD_MAX);
	return s;
}

void sniff_free(struct sniff *s)
{
	if (!s)
		return;
	http_parser_free(s->http);
	buf_done(&s->text);
	free(s);
}

void sniff_freep(struct sniff **s)
{
	sniff_free(*s);
}

static void over(struct sniff *s, enum sniff_verdict verdict)
{
	s->phase = OVER;
	s->verdict = verdict;
	buf_done(&s->text);
}

static void skip(struct bytes *in, size_t n)
{
	in->at += n;
	in->len -= n;
}

/* HTTP. */

static bool request_ok(const struct sniff *s, const struct http_head *h)
{
	bool absolute = h->url[0] != '/' && strcmp(h->url, "*") != 0, https;
	const char *value = http_header(h, "host"), *path;
	struct authority target, host;

	if (http_header_count(h, "host") > 1)
		return false;
	if (absolute &&
	    (authority_of_url(h->url, &target, &https, &path) < 0 || !s->ok(s->ctx, target.host)))
		return false;
	if (!value)
		return absolute || h->minor == 0;
	if (authority_parse(value, strlen(value), &host) < 0 || !s->ok(s->ctx, host.host))
		return false;
	return !absolute || strcmp(target.host, host.host) == 0;
}

static void got_head(struct sniff *s)
{
	const struct http_head *h = http_parser_head(s->http);

	if (!request_ok(s, h)) {
		over(s, SNIFF_DIFFERS);
		return;
	}
	s->held = 0;
	s->in_body = true;
	s->upgrade = h->upgrade;
}

static void got_end(struct sniff *s)
{
	http_parser_reset(s->http);
	s->in_body = false;
	if (s->upgrade) {
		s->phase = LOOKING;
		s->part = FRONT;
	}
}

static bool is_too_long(const struct http_parser *p)
{
	int status = http_parser_status(p);

	return status == 414 || status == 431;
}

static void read_http(struct sniff *s, struct bytes *in)
{
	enum http_event e = HTTP_GOT_BODY;

	while (e != HTTP_MORE && s->phase == IN_HTTP) {
		size_t used;

		e = http_parse(s->http, in->at, in->len, &used);
		skip(in, used);
		switch (e) {
		case HTTP_GOT_HEAD:
			got_head(s);
			break;
		case HTTP_GOT_END:
			got_end(s);
			break;
		case HTTP_BAD:
			over(s, is_too_long(s->http) ? SNIFF_TOO_LONG : SNIFF_DIFFERS);
			break;
		case HTTP_MORE:
			/* Empty lines in front of a request are no part of it. */
			if (!s->in_body)
				s->held = http_parser_begun(s->http) ? s->held + used : 0;
			break;
		case HTTP_GOT_BODY:
			break;
		}
	}
}

/* What was held while looking is the beginning. */
static void begin_http(struct sniff *s)
{
	struct bytes first = {s->text.data, s->text.len};

	if (!s->http)
		s->http = http_parser_new(HTTP_REQUESTS, &limits);
	if (!s->http) {
		over(s, SNIFF_DIFFERS);
		return;
	}
	s->phase = IN_HTTP;
	s->held = 0;
	read_http(s, &first);
	buf_done(&s->text);
}

/* TLS. */

static bool name_ok(void *ctx, const char *name, size_t len)
{
	const struct sniff *s = ctx;
	char normal[DOMAIN_SIZE];

	return domain_name(name, len, normal) == 0 && s->ok(s->ctx, normal);
}

/*
 * A server that wants other keys asks for the hello once more, and may go by the name in that. So
 * it is looked for until the client has said something else: what is between may be passed over by
 * the server.
 */
static void begin_record(struct sniff *s)
{
	s->left = tls_record_size(s->header);
	s->skips = s->header[0] != TLS_HANDSHAKE;
	if (s->left == 0 || (s->skips && (!s->again || s->text.len > 0)))
		over(s, SNIFF_DIFFERS);
	else if (s->header[0] == TLS_DATA && !s->early)
		over(s, SNIFF_DONE);
}

static void take_header(struct sniff *s, uint8_t byte)
{
	s->header[s->header_len++] = byte;
	if (s->header_len < TLS_RECORD_HEADER)
		return;
	s->header_len = 0;
	begin_record(s);
}

static void said_hello(struct sniff *s)
{
	s->again = true;
	s->held = s->text.len = 0;
}

static void judge_hello(struct sniff *s)
{
	bool early;

	if (s->again && !client_hello_begins(s->text.data, s->text.len)) {
		over(s, SNIFF_DONE);
		return;
	}
	if (s->again && s->text.len < CLIENT_HELLO_BEGIN)
		return;
	switch (client_hello_check(s->text.data, s->text.len, name_ok, s, &early)) {
	case HELLO_MORE:
		break;
	case HELLO_OK:
		s->early |= early;
		if (s->left > 0)
			over(s, SNIFF_DIFFERS);
		else
			said_hello(s);
		break;
	case HELLO_BAD:
		over(s, SNIFF_DIFFERS);
		break;
	}
}

static void read_tls(struct sniff *s, struct bytes *in)
{
	while (in->len > 0 && s->phase == IN_TLS) {
		size_t n = s->left > 0 ? size_min(s->left, in->len) : 1;

		n = size_min(n, SNIFF_HELD_MAX - s->held);
		s->held += n;
		if (n == 0) {
			over(s, SNIFF_TOO_LONG);
		} else if (s->left == 0) {
			take_header(s, (uint8_t)*in->at);
		} else if (s->skips) {
			s->left -= n;
			s->held = 0;
		} else if (buf_append(&s->text, in->at, n) < 0) {
			over(s, SNIFF_DIFFERS);
		} else {
			s->left -= n;
			judge_hello(s);
		}
		skip(in, n);
	}
}

/* Looking. */

/* With what some servers part words at, too: RFC 9112, 3, and languages' own ways to split a line.
 */
static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\v' || c == '\f' || (c >= '\x1c' && c <= '\x1f');
}

/* The same in Latin-1. The second byte of a WebSocket's frame may be one. */
static bool is_blank_behind_word(const struct sniff *s, char c)
{
	return is_blank(c) || (s->text.len > 2 && (c == '\x85' || c == '\xa0'));
}

/* No server that has hosts of many names takes a request with such bytes in its first line. */
static bool is_control(char c)
{
	return ((unsigned char)c < ' ' && !is_blank(c) && c != '\r' && c != '\n') || c == '\x7f';
}

static void end_of_word(struct sniff *s, char c)
{
	/* A request of HTTP/0.9 says no more than GET, which is not read here, but by others. */
	if (s->capitals && c == ' ')
		begin_http(s);
	else
		s->part = REST;
}

static void end_of_line(struct sniff *s)
{
	/* Whatever the method: servers take some that llhttp does not know, or in lower case. */
	if (strcasestr(buf_str(&s->text), "http/"))
		begin_http(s);
	else
		over(s, SNIFF_DONE);
}

static void look_at(struct sniff *s, char c)
{
	if (s->part == FRONT && !is_blank(c) && c != '\r' && c != '\n') {
		s->part = WORD;
		s->capitals = true;
	}
	if (s->part == WORD && (is_blank_behind_word(s, c) || c == '\r'))
		end_of_word(s, c);
	else if (is_control(c) || (s->part == WORD && (unsigned char)c > '~'))
		over(s, SNIFF_DONE);
	else if (s->part != FRONT && c == '\n')
		end_of_line(s);
	else if (s->part == WORD && (c < 'A' || c > 'Z'))
		s->capitals = false;
}

static void look(struct sniff *s, struct bytes *in)
{
	if (s->text.len == 0 && *in->at == TLS_HANDSHAKE) {
		s->phase = IN_TLS;
		return;
	}
	while (in->len > 0 && s->phase == LOOKING) {
		char c = *in->at;

		skip(in, 1);
		if (buf_append(&s->text, &c, 1) < 0) {
			over(s, SNIFF_TOO_LONG);
			return;
		}
		s->held++;
		look_at(s, c);
	}
}

static enum sniff_verdict verdict(const struct sniff *s)
{
	if (s->phase == OVER)
		return s->verdict;
	return s->held > 0 ? SNIFF_MORE : SNIFF_PASS;
}

enum sniff_verdict sniff_bytes(struct sniff *s, const char *data, size_t len)
{
	struct bytes in = {data, len};

	while (in.len > 0 && s->phase != OVER) {
		if (s->phase == LOOKING)
			look(s, &in);
		else if (s->phase == IN_TLS)
			read_tls(s, &in);
		else
			read_http(s, &in);
	}
	return verdict(s);
}

enum sniff_verdict sniff_end(struct sniff *s)
{
	if (s->phase == LOOKING && s->held > 0)
		end_of_line(s);
	return verdict(s);
}

size_t sniff_held(const struct sniff *s)
{
	return s->phase == OVER && s->verdict == SNIFF_DONE ? 0 : s->held;
}
