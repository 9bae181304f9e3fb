#include "base/http.h"

#include "base/attr.h"
#include "base/buf.h"

#include <ctype.h>
#include <llhttp.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/*
 * Theory of operation. A small scanner looks at the bytes of the head before llhttp
 * does: it knows only lines, enforces the limits, and says where the empty line is.
 * llhttp must come to the same end of the head, else the message is refused. Behind
 * the head every byte that llhttp does not call body is looked at as well: between
 * chunks there may be hexadecimal digits and CR LF, nothing else. So no leniency of
 * llhttp's, known or not, lets through what another parser may read in another way.
 */

enum where { AT_HEAD, AT_HEAD_END, AT_BODY, AT_END, AT_BAD };

struct line_at {
	size_t name, value; /* offsets into text */
};

struct http_parser {
	llhttp_t ll;
	struct http_limits limits;
	enum where where;
	/* The scanner. */
	bool cr;       /* the last byte was one */
	bool begun;    /* there was a line that is not empty */
	size_t seen;   /* bytes of the head */
	size_t line;   /* bytes of this line */
	size_t lines;  /* whole ones, the first included */
	char tail[8];  /* the last bytes of the first line: a request's version */
	size_t spaces; /* in the first line */
	/* The head: strings one behind the other, each with its NUL. */
	struct buf text;
	struct line_at at[HTTP_HEADERS_MAX];
	struct http_header headers[HTTP_HEADERS_MAX];
	size_t n_headers;
	struct http_head head;
	/* The last event. */
	const char *body;
	size_t body_len;
	const char *framing; /* from here on the bytes were not looked at yet */
	int status;
	const char *reason;
};

static int bad(struct http_parser *p, int status, const char *reason)
{
	if (p->where != AT_BAD) {
		p->where = AT_BAD;
		p->status = status;
		p->reason = reason;
	}
	return -1;
}

static int keep(struct http_parser *p, const char *at, size_t len)
{
	return buf_append(&p->text, at, len) < 0 ? bad(p, 500, "out of memory") : 0;
}

static struct http_parser *of(llhttp_t *ll)
{
	return ll->data;
}

static int on_text(llhttp_t *ll, const char *at, size_t len)
{
	return keep(of(ll), at, len);
}

static int on_url_end(llhttp_t *ll)
{
	struct http_parser *p = of(ll);

	if (keep(p, "", 1) < 0)
		return -1;
	p->at[0].name = p->text.len;
	return 0;
}

static int on_name(llhttp_t *ll, const char *at, size_t len)
{
	struct http_parser *p = of(ll);

	if (p->where != AT_HEAD)
		return bad(p, 400, "trailers are not accepted");
	return keep(p, at, len);
}

static int on_name_end(llhttp_t *ll)
{
	struct http_parser *p = of(ll);

	if (p->n_headers == HTTP_HEADERS_MAX)
		return bad(p, 431, "too many headers");
	if (keep(p, "", 1) < 0)
		return -1;
	p->at[p->n_headers].value = p->text.len;
	return 0;
}

static int on_value_end(llhttp_t *ll)
{
	struct http_parser *p = of(ll);
	size_t value = p->at[p->n_headers].value;

	while (p->text.len > value &&
	       (p->text.data[p->text.len - 1] == ' ' || p->text.data[p->text.len - 1] == '\t'))
		p->text.len--;
	if (keep(p, "", 1) < 0)
		return -1;
	p->n_headers++;
	if (p->n_headers < HTTP_HEADERS_MAX)
		p->at[p->n_headers].name = p->text.len;
	return 0;
}

static int on_head_end(llhttp_t *ll)
{
	struct http_parser *p = of(ll);

	p->where = AT_HEAD_END;
	return HPE_PAUSED;
}

/* Between chunks; at and to lie in what is being parsed. */
static int check_framing(struct http_parser *p, const char *to)
{
	for (; p->framing < to; p->framing++) {
		char c = *p->framing;

		if (p->cr ? c != '\n' : c != '\r' && !isxdigit((unsigned char)c))
			return bad(p, 400, "bad chunk");
		p->cr = c == '\r';
	}
	return 0;
}

static int on_body(llhttp_t *ll, const char *at, size_t len)
{
	struct http_parser *p = of(ll);

	if (check_framing(p, at) < 0)
		return -1;
	p->body = at;
	p->body_len = len;
	p->framing = at + len;
	return HPE_PAUSED;
}

static int on_extension(llhttp_t *ll, const char *at, size_t len)
{
	(void)at;
	(void)len;
	return bad(of(ll), 400, "chunk extensions are not accepted");
}

static int on_end(llhttp_t *ll)
{
	of(ll)->where = AT_END;
	return HPE_PAUSED;
}

static const llhttp_settings_t settings = {
	.on_url = on_text,
	.on_url_complete = on_url_end,
	.on_header_field = on_name,
	.on_header_field_complete = on_name_end,
	.on_header_value = on_text,
	.on_header_value_complete = on_value_end,
	.on_headers_complete = on_head_end,
	.on_body = on_body,
	.on_chunk_extension_name = on_extension,
	.on_chunk_extension_value = on_extension,
	.on_message_complete = on_end,
};

struct http_parser *http_parser_new(enum http_kind kind, const struct http_limits *limits)
{
	struct http_parser *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	llhttp_init(&p->ll, kind == HTTP_REQUESTS ? HTTP_REQUEST : HTTP_RESPONSE, &settings);
	p->ll.data = p;
	p->limits = *limits;
	p->limits.header_lines = size_min(limits->header_lines, HTTP_HEADERS_MAX);
	/* Each line loses its CR LF and at least a colon or space, and gains two NULs. */
	p->text = BUF(limits->head_bytes + 8);
	return p;
}

void http_parser_free(struct http_parser *p)
{
	if (!p)
		return;
	buf_done(&p->text);
	free(p);
}

void http_parser_freep(struct http_parser **p)
{
	http_parser_free(*p);
}

void http_parser_reset(struct http_parser *p)
{
	llhttp_reset(&p->ll);
	p->where = AT_HEAD;
	p->cr = p->begun = false;
	p->seen = p->line = p->lines = p->spaces = p->n_headers = p->at[0].name = 0;
	/* The many connections that wait for their next request shall hold little. */
	buf_done(&p->text);
	memset(&p->head, 0, sizeof(p->head));
	p->body_len = 0;
}

static int end_of_line(struct http_parser *p)
{
	/* llhttp knows relatives of HTTP (RTSP, ICE), lines without a version, and two spaces. */
	if (p->lines == 0 && p->ll.type == HTTP_REQUEST &&
	    (p->spaces != 2 || memcmp(p->tail, "HTTP/", 5) != 0))
		return bad(p, 400, "only HTTP/1.0 and HTTP/1.1 are spoken");
	p->cr = false;
	p->line = 0;
	p->lines++;
	return p->lines > p->limits.header_lines + 1 ? bad(p, 431, "too many headers") : 0;
}

/* One byte of the head. 1: it was the last one. */
static int scan_byte(struct http_parser *p, char c)
{
	if (++p->seen > p->limits.head_bytes)
		return bad(p, 431, "the head is too large");
	if (p->cr != (c == '\n'))
		return bad(p, 400, "lines end with CR LF");
	if (c == '\n') {
		if (p->line > 0)
			return end_of_line(p);
		p->cr = false;
		return p->begun; /* empty lines in front of a message are passed over */
	}
	p->cr = c == '\r';
	if (p->cr)
		return 0;
	if (c == '\0')
		return bad(p, 400, "a NUL in the head");
	if (p->line == 0 && (c == ' ' || c == '\t'))
		return bad(p, 400, "folded lines are not accepted");
	p->begun = true;
	if (p->lines == 0) {
		memmove(p->tail, p->tail + 1, sizeof(p->tail) - 1);
		p->tail[sizeof(p->tail) - 1] = c;
		p->spaces += c == ' ';
	}
	if (++p->line > p->limits.line_bytes && p->lines == 0)
		return bad(p, 414, "the URL is too long");
	return 0;
}

/* How many of the bytes belong to the head; *ret_whole: it ends there. 0 or -1. */
static int scan(struct http_parser *p, const char *data, size_t len, size_t *ret_n, bool *ret_whole)
{
	*ret_whole = false;
	for (size_t i = 0; i < len; i++) {
		int r = scan_byte(p, data[i]);

		if (r < 0)
			return -1;
		if (r == 1) {
			*ret_n = i + 1;
			*ret_whole = true;
			return 0;
		}
	}
	*ret_n = len;
	return 0;
}

static int check_coding(struct http_parser *p)
{
	struct http_head *h = &p->head;
	const char *coding = http_header(h, "transfer-encoding");

	h->chunked = coding != NULL;
	h->has_length = http_header(h, "content-length") != NULL;
	if (coding && h->has_length)
		return bad(p, 400, "a length and a transfer coding");
	if (http_header_count(h, "content-length") > 1)
		return bad(p, 400, "two lengths");
	if (coding && (h->minor == 0 || strcasecmp(coding, "chunked") != 0 ||
		       http_header_count(h, "transfer-encoding") > 1))
		return bad(p, 400, "no transfer coding but chunked is known");
	h->length = h->has_length ? p->ll.content_length : 0;
	return 0;
}

static int make_head(struct http_parser *p)
{
	struct http_head *h = &p->head;

	for (size_t i = 0; i < p->n_headers; i++) {
		p->headers[i].name = p->text.data + p->at[i].name;
		p->headers[i].value = p->text.data + p->at[i].value;
	}
	for (size_t i = 0; i < p->n_headers; i++)
		if (p->headers[i].name[0] == '\0')
			return bad(p, 400, "a header without a name");
	h->headers = p->headers;
	h->n_headers = p->n_headers;
	h->minor = p->ll.http_minor;
	h->keep_alive = llhttp_should_keep_alive(&p->ll);
	h->upgrade = p->ll.upgrade;
	if (p->ll.type == HTTP_REQUEST) {
		h->method = llhttp_method_name(p->ll.method);
		h->url = buf_str(&p->text);
	} else {
		h->status = p->ll.status_code;
	}
	if (p->ll.http_major != 1 || p->ll.http_minor > 1)
		return bad(p, 505, "only HTTP/1.0 and HTTP/1.1 are spoken");
	return check_coding(p);
}

static enum http_event refused(struct http_parser *p)
{
	const char *reason = llhttp_get_error_reason(&p->ll);

	(void)bad(p, 400, reason && *reason ? reason : "not HTTP");
	return HTTP_BAD;
}

static enum http_event parse_head(struct http_parser *p, const char *data, size_t len,
				  size_t *ret_used)
{
	llhttp_errno_t e;
	bool whole;

	if (scan(p, data, len, ret_used, &whole) < 0)
		return HTTP_BAD;
	e = llhttp_execute(&p->ll, data, *ret_used);
	if (p->where == AT_BAD || (e != HPE_OK && e != HPE_PAUSED))
		return refused(p);
	/* Both must have come to the same end. */
	if (whole != (p->where == AT_HEAD_END) ||
	    (whole && llhttp_get_error_pos(&p->ll) != data + *ret_used)) {
		(void)bad(p, 400, "an unclear end of the head");
		return HTTP_BAD;
	}
	if (!whole)
		return HTTP_MORE;
	return make_head(p) < 0 ? HTTP_BAD : HTTP_GOT_HEAD;
}

static enum http_event parse_body(struct http_parser *p, const char *data, size_t len,
				  size_t *ret_used)
{
	llhttp_errno_t e;

	p->where = AT_BODY;
	p->body_len = 0;
	p->framing = data;
	llhttp_resume(&p->ll);
	e = llhttp_execute(&p->ll, data, len);
	if (p->where == AT_BAD ||
	    (e != HPE_OK && e != HPE_PAUSED && !(e == HPE_PAUSED_UPGRADE && p->where == AT_END)))
		return refused(p);
	*ret_used = e == HPE_OK ? len : (size_t)(llhttp_get_error_pos(&p->ll) - data);
	if (check_framing(p, data + *ret_used) < 0)
		return HTTP_BAD;
	if (p->where == AT_END)
		return HTTP_GOT_END;
	return p->body_len > 0 ? HTTP_GOT_BODY : HTTP_MORE;
}

enum http_event http_parse(struct http_parser *p, const char *data, size_t len, size_t *ret_used)
{
	*ret_used = 0;
	switch (p->where) {
	case AT_HEAD:
		return len > 0 ? parse_head(p, data, len, ret_used) : HTTP_MORE;
	case AT_HEAD_END:
	case AT_BODY:
		return parse_body(p, data, len, ret_used);
	case AT_END:
		return HTTP_GOT_END;
	case AT_BAD:
		break;
	}
	return HTTP_BAD;
}

enum http_event http_parse_eof(struct http_parser *p)
{
	if (p->where == AT_END)
		return HTTP_GOT_END;
	if (p->where == AT_HEAD && p->seen == 0)
		return HTTP_MORE;
	llhttp_resume(&p->ll);
	if (p->where == AT_BODY && llhttp_finish(&p->ll) == HPE_PAUSED && p->where == AT_END)
		return HTTP_GOT_END;
	(void)bad(p, 400, "the message was cut short");
	return HTTP_BAD;
}

const struct http_head *http_parser_head(const struct http_parser *p)
{
	return &p->head;
}

const char *http_parser_body(const struct http_parser *p, size_t *ret_len)
{
	*ret_len = p->body_len;
	return p->body;
}

bool http_parser_begun(const struct http_parser *p)
{
	return p->where != AT_HEAD || p->begun;
}

int http_parser_status(const struct http_parser *p)
{
	return p->status;
}

const char *http_parser_reason(const struct http_parser *p)
{
	return p->reason;
}

const char *http_header(const struct http_head *head, const char *name)
{
	for (size_t i = 0; i < head->n_headers; i++)
		if (strcasecmp(head->headers[i].name, name) == 0)
			return head->headers[i].value;
	return NULL;
}

size_t http_header_count(const struct http_head *head, const char *name)
{
	size_t n = 0;

	for (size_t i = 0; i < head->n_headers; i++)
		n += strcasecmp(head->headers[i].name, name) == 0;
	return n;
}

bool http_list_has(const char *list, const char *word)
{
	size_t len = strlen(word);

	while (list && *list) {
		size_t n;

		list += strspn(list, " \t,");
		n = strcspn(list, " \t,;");
		if (n == len && strncasecmp(list, word, n) == 0)
			return true;
		list += strcspn(list, ",");
	}
	return false;
}

const char *http_status_text(int status)
{
	static const struct {
		int status;
		const char *text;
	} known[] = {
		{101, "Switching Protocols"},
		{200, "OK"},
		{201, "Created"},
		{202, "Accepted"},
		{204, "No Content"},
		{206, "Partial Content"},
		{304, "Not Modified"},
		{400, "Bad Request"},
		{401, "Unauthorized"},
		{403, "Forbidden"},
		{404, "Not Found"},
		{405, "Method Not Allowed"},
		{408, "Request Timeout"},
		{409, "Conflict"},
		{410, "Gone"},
		{412, "Precondition Failed"},
		{413, "Content Too Large"},
		{414, "URI Too Long"},
		{415, "Unsupported Media Type"},
		{416, "Range Not Satisfiable"},
		{417, "Expectation Failed"},
		{422, "Unprocessable Content"},
		{426, "Upgrade Required"},
		{429, "Too Many Requests"},
		{431, "Request Header Fields Too Large"},
		{500, "Internal Server Error"},
		{502, "Bad Gateway"},
		{503, "Service Unavailable"},
		{504, "Gateway Timeout"},
		{505, "HTTP Version Not Supported"},
	};

	for (size_t i = 0; i < ARRAY_LEN(known); i++)
		if (known[i].status == status)
			return known[i].text;
	return "";
}
