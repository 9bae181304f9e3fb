#include "egress/proxy_head.h"

#include "base/attr.h"

#include <string.h>
#include <strings.h>

const struct http_limits proxy_limits = {
	.line_bytes = PROXY_HEAD_MAX,
	.head_bytes = PROXY_HEAD_MAX,
	.header_lines = HTTP_HEADERS_MAX,
};

void proxy_request_done(struct proxy_request *r)
{
	buf_done(&r->head);
}

static int refuse(int status, const char *why, const char **ret_why)
{
	*ret_why = why;
	return status;
}

static bool is_one_of(const char *name, const char *const *list)
{
	while (*list && strcasecmp(*list, name) != 0)
		list++;
	return *list != NULL;
}

/* What Connection names is for the next hop alone. */
static bool is_named_by_connection(const struct http_head *h, const char *name)
{
	for (size_t i = 0; i < h->n_headers; i++)
		if (strcasecmp(h->headers[i].name, "connection") == 0 &&
		    http_list_has(h->headers[i].value, name))
			return true;
	return false;
}

static bool goes_on(const struct http_head *h, const char *name)
{
	/* Or the body would be read as a second request. */
	static const char *const framing[] = {"content-length", "transfer-encoding", NULL};
	static const char *const ours[] = {"host",    "connection", "keep-alive", "te",
					   "trailer", "upgrade",    NULL};

	if (is_one_of(name, framing))
		return true;
	return !is_one_of(name, ours) && strncasecmp(name, "proxy-", 6) != 0 &&
	       !is_named_by_connection(h, name);
}

static int add_host(struct buf *b, const struct authority *to)
{
	bool brackets = to->literal && strchr(to->host, ':');
	int r = buf_printf(b, "Host: %s%s%s", brackets ? "[" : "", to->host, brackets ? "]" : "");

	if (r == 0 && to->port != 80)
		r = buf_printf(b, ":%u", to->port);
	return r < 0 ? r : buf_append_str(b, "\r\n");
}

static int make_head(const struct http_head *h, const struct authority *to, const char *path,
		     struct buf *b)
{
	const char *front = path[0] == '/' ? "" : "/";
	int r;

	/* RFC 9112, 3.2.4 */
	if (!path[0] && strcmp(h->method, "OPTIONS") == 0)
		front = "*";
	r = buf_printf(b, "%s %s%s HTTP/1.%d\r\n", h->method, front, path, h->minor);
	if (r == 0)
		r = add_host(b, to);
	for (size_t i = 0; r == 0 && i < h->n_headers; i++)
		if (goes_on(h, h->headers[i].name))
			r = buf_printf(b, "%s: %s\r\n", h->headers[i].name, h->headers[i].value);
	return r < 0 ? r : buf_append_str(b, "Connection: close\r\n\r\n");
}

static int make_connect(const struct http_head *h, struct authority *ret, const char **ret_why)
{
	if (authority_parse(h->url, strlen(h->url), ret) < 0 || ret->port == 0)
		return refuse(400, "CONNECT wants HOST:PORT", ret_why);
	/* What follows is the tunnel's; others may take it for a body. */
	if (h->chunked || h->has_length)
		return refuse(400, "CONNECT has no body", ret_why);
	return 0;
}

int proxy_request_make(const struct http_head *h, struct proxy_request *ret, const char **ret_why)
{
	_cleanup_(buf_done) struct buf head = BUF(PROXY_HEAD_MAX + PROXY_HEAD_GROWS);
	bool connect = strcmp(h->method, "CONNECT") == 0, https;
	struct authority to;
	const char *path;
	int status = 0;

	if (connect)
		status = make_connect(h, &to, ret_why);
	else if (h->url[0] == '/' || strcmp(h->url, "*") == 0)
		status =
			refuse(400, "this is a proxy: ask for http://HOST/... or CONNECT HOST:PORT",
			       ret_why);
	else if (authority_of_url(h->url, &to, &https, &path) < 0 || strchr(path, '#'))
		status = refuse(400, "this is no URL of http", ret_why);
	else if (https)
		status = refuse(400, "https goes by CONNECT HOST:PORT", ret_why);
	/* It would say to the host what was meant for us, and back. */
	else if (strcmp(h->method, "TRACE") == 0)
		status = refuse(405, "TRACE is not carried", ret_why);
	if (status != 0)
		return status;
	if (to.port == 0)
		to.port = 80;
	if (!connect && make_head(h, &to, path, &head) < 0)
		return refuse(500, "out of memory", ret_why);
	*ret = (struct proxy_request){.connect = connect, .to = to, .head = head};
	head = BUF(0);
	return 0;
}

int proxy_status(enum egress_why why)
{
	switch (why) {
	case WHY_NO_SUCH_NAME:
	case WHY_REFUSED:
	case WHY_UNREACHABLE:
	case WHY_RESET:
	case WHY_LOST:
		return 502;
	case WHY_NO_ANSWER:
	case WHY_TIMED_OUT:
		return 504;
	case WHY_NONE:
	case WHY_NOT_LISTED:
	case WHY_BLOCKED:
	case WHY_PORT:
	case WHY_OPERATOR:
	case WHY_LITERAL:
	case WHY_NOT_PUBLIC:
	case WHY_NAME_DIFFERS:
	case WHY_HEAD:
	case WHY_PROTOCOL:
	case WHY_NOT_A_NAME:
	case WHY_CONNECTIONS:
	case WHY_BYTES:
	case WHY_NAMES:
	case WHY_LOOKUPS:
	case WHYS:
		break;
	}
	return 403;
}

int proxy_answer(struct buf *out, int status, const char *why)
{
	static const char prefix[] = "cay: ";
	const char *allow = status == 405 ? "Allow: CONNECT, DELETE, GET, HEAD, OPTIONS, PATCH, "
					    "POST, PUT\r\n"
					  : "";

	return buf_printf(out,
			  "HTTP/1.1 %d %s\r\n%sContent-Type: text/plain\r\nContent-Length: %zu\r\n"
			  "Connection: close\r\n\r\n%s%s\n",
			  status, http_status_text(status), allow, strlen(prefix) + strlen(why) + 1,
			  prefix, why);
}
