/*
 * http.h: the one shim over llhttp: HTTP/1 messages, requests or responses, out of
 * bytes as they come. Strict on purpose: what two parsers could read in two ways
 * (a lone CR or LF, folded lines, a length and chunks, codings other than chunked,
 * chunk extensions, trailers) is refused, not guessed at. The caller pulls:
 *
 *	while ((e = http_parse(p, data, len, &used)) != HTTP_MORE) {
 *		data += used, len -= used;
 *		HTTP_GOT_HEAD: http_parser_head(); HTTP_GOT_BODY: http_parser_body(), maybe often;
 *		HTTP_GOT_END: http_parser_reset() and on, or stop; HTTP_BAD: that was it
 *	}
 *
 * and may stop between any two events. HTTP_MORE says that all bytes are used, so
 * after another event it is called again also when none are left.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct http_parser;

enum http_kind { HTTP_REQUESTS, HTTP_RESPONSES };

enum http_event {
	HTTP_MORE, /* than these bytes is needed */
	HTTP_GOT_HEAD,
	HTTP_GOT_BODY,
	HTTP_GOT_END,
	HTTP_BAD,
};

/* What goes beyond is HTTP_BAD. The length of bodies is the caller's to limit. */
struct http_limits {
	size_t line_bytes; /* the first line: the method, URL and version */
	size_t head_bytes; /* all lines up to the empty one */
	size_t header_lines;
};

#define HTTP_HEADERS_MAX 100 /* header_lines may not be more */

struct http_header {
	const char *name, *value; /* the value without white space around it */
};

struct http_head {
	const char *method; /* "GET"; of requests */
	const char *url;    /* as sent; of requests */
	int status;         /* of responses */
	int minor;          /* HTTP/1.x: 0 or 1 */
	bool keep_alive;
	bool chunked;
	bool has_length; /* a Content-Length */
	uint64_t length;
	bool upgrade; /* Upgrade and Connection: upgrade; of responses: with a 101 */
	const struct http_header *headers;
	size_t n_headers;
};

/* NULL when memory is out. The limits are copied. */
struct http_parser *http_parser_new(enum http_kind kind, const struct http_limits *limits);
void http_parser_free(struct http_parser *p);
void http_parser_freep(struct http_parser **p);

/* For the next message. */
void http_parser_reset(struct http_parser *p);

enum http_event http_parse(struct http_parser *p, const char *data, size_t len, size_t *ret_used);

/*
 * The stream has ended. HTTP_GOT_END: so has the message, a response without a length;
 * HTTP_MORE: there was none; HTTP_BAD: it was cut short.
 */
enum http_event http_parse_eof(struct http_parser *p);

/* Since HTTP_GOT_HEAD, until the reset. */
const struct http_head *http_parser_head(const struct http_parser *p);

/* Of the HTTP_GOT_BODY just seen: a piece of the bytes that were given. */
const char *http_parser_body(const struct http_parser *p, size_t *ret_len);

/* Whether anything of a message has come yet. */
bool http_parser_begun(const struct http_parser *p);

/* Of HTTP_BAD: the status to answer with (400, 414, 431, 500, 505) and a short reason. */
int http_parser_status(const struct http_parser *p);
const char *http_parser_reason(const struct http_parser *p);

/* The first header of that name, in any case, or NULL; and how many there are. */
const char *http_header(const struct http_head *head, const char *name);
size_t http_header_count(const struct http_head *head, const char *name);

/* Whether a list such as "keep-alive, Upgrade" has the word, in any case. */
bool http_list_has(const char *list, const char *word);

/* "Not Found", "" when unknown. */
const char *http_status_text(int status);
