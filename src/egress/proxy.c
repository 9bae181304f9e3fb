#include "egress/proxy.h"

#include "base/attr.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define READ_BYTES (16u << 10)

struct proxy {
	struct loop *loop, *timers;
	const struct proxy_calls *calls;
	void *ctx;
	struct loop_fd f;
	struct loop_timer timer;
	struct http_parser *http;
	struct proxy_request request;
	struct buf first; /* the new head, and what came behind the old one */
	size_t unseen;
	bool refused;
};

void proxy_free(struct proxy *p)
{
	if (!p)
		return;
	loop_remove(p->loop, &p->f);
	loop_cancel(p->timers, &p->timer);
	http_parser_free(p->http);
	proxy_request_done(&p->request);
	buf_done(&p->first);
	free(p);
}

static void over(struct proxy *p)
{
	loop_remove(p->loop, &p->f);
	loop_cancel(p->timers, &p->timer);
	p->calls->over(p->ctx);
}

static void on_timer(struct loop_timer *t)
{
	struct proxy *p = t->ctx;

	if (p->refused)
		over(p);
	else
		proxy_refuse(p, 408, "the request took too long");
}

void proxy_refuse(struct proxy *p, int status, const char *why)
{
	_cleanup_(buf_done) struct buf out = BUF(4096);

	p->refused = true;
	/*
	 * Closed with bytes unread, the socket would be reset, and the answer lost: so the program
	 * has a while to read it and to close. A new socket takes these few bytes at once.
	 */
	if (proxy_answer(&out, status, why) == 0)
		(void)send(p->f.fd, out.data, out.len, MSG_NOSIGNAL);
	(void)shutdown(p->f.fd, SHUT_WR);
	/* On failure the caller's own time-outs will do. */
	(void)loop_after(p->timers, &p->timer, PROXY_LINGER_MS);
	if (!p->f.added)
		(void)loop_add(p->loop, &p->f, EPOLLIN);
}

static void got_head(struct proxy *p, const char *rest, size_t len)
{
	const char *why;
	int status = proxy_request_make(http_parser_head(p->http), &p->request, &why);

	if (status == 0 &&
	    (buf_append(&p->first, buf_str(&p->request.head), p->request.head.len) < 0 ||
	     buf_append(&p->first, rest, len) < 0)) {
		status = 500;
		why = "out of memory";
	}
	if (status != 0) {
		proxy_refuse(p, status, why);
		return;
	}
	p->unseen = len;
	loop_remove(p->loop, &p->f);
	loop_cancel(p->timers, &p->timer);
	p->calls->asked(p->ctx, &p->request);
}

static void on_ready(struct loop_fd *f, uint32_t events)
{
	struct proxy *p = f->ctx;
	char data[READ_BYTES];
	ssize_t n = recv(f->fd, data, sizeof(data), 0);
	size_t used;

	(void)events;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		over(p);
		return;
	}
	if (p->refused)
		return;
	switch (http_parse(p->http, data, (size_t)n, &used)) {
	case HTTP_GOT_HEAD:
		got_head(p, data + used, (size_t)n - used);
		return;
	case HTTP_MORE:
		return;
	case HTTP_GOT_BODY:
	case HTTP_GOT_END:
	case HTTP_BAD:
		break;
	}
	proxy_refuse(p, http_parser_status(p->http), http_parser_reason(p->http));
}

struct proxy *proxy_new(struct loop *loop, struct loop *timers, int fd,
			const struct proxy_calls *calls, void *ctx)
{
	struct proxy *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->loop = loop;
	p->timers = timers;
	p->calls = calls;
	p->ctx = ctx;
	p->f = (struct loop_fd){.fd = fd, .ready = on_ready, .ctx = p};
	p->timer = (struct loop_timer){.fire = on_timer, .ctx = p};
	p->first = BUF(PROXY_HEAD_MAX + PROXY_HEAD_GROWS + READ_BYTES);
	p->http = http_parser_new(HTTP_REQUESTS, &proxy_limits);
	if (!p->http || loop_add(loop, &p->f, EPOLLIN) < 0 ||
	    loop_after(timers, &p->timer, PROXY_HEAD_MS) < 0) {
		proxy_free(p);
		errno = ENOMEM;
		return NULL;
	}
	return p;
}

int proxy_open(struct proxy *p, const struct buf **ret_first, size_t *ret_unseen)
{
	static const char established[] = "HTTP/1.1 200 Connection Established\r\n\r\n";
	ssize_t n;

	if (p->request.connect) {
		n = send(p->f.fd, established, sizeof(established) - 1, MSG_NOSIGNAL);
		if (n != (ssize_t)sizeof(established) - 1)
			return n < 0 ? -errno : -EIO;
	}
	*ret_first = &p->first;
	*ret_unseen = p->unseen;
	return 0;
}

int proxy_body(struct proxy *p, const char *data, size_t len, size_t *ret_n, bool *ret_over)
{
	enum http_event e;
	size_t used;

	*ret_n = 0;
	do {
		e = http_parse(p->http, data + *ret_n, len - *ret_n, &used);
		*ret_n += used;
	} while (e == HTTP_GOT_BODY);
	*ret_over = e == HTTP_GOT_END;
	return e == HTTP_BAD ? -1 : 0;
}
