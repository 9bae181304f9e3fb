#include "cli/remote_impl.h"

#include "base/attr.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/json.h"
#include "cli/cli.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define CONNECT_MS       10000
#define KEY_MAX          256
#define CHUNK_LINE_BYTES 16
#define HEAD_MAX         ((size_t)64 << 10)

static const struct http_limits limits = {
	.line_bytes = 1024, .head_bytes = HEAD_MAX, .header_lines = HTTP_HEADERS_MAX};

void remote_free(struct remote *r)
{
	if (!r)
		return;
	fd_closep(&r->fd);
	fd_closep(&r->signals);
	http_parser_free(r->parser);
	free(r);
}

void remote_freep(struct remote **r)
{
	remote_free(*r);
}

int remote_no_memory(struct cay_error *err)
{
	return cay_fail(err, CAY_E_INTERNAL, ENOMEM, "talk to the daemon");
}

static struct remote *remote_new(void)
{
	struct remote *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->fd = r->signals = -1;
	r->parser = http_parser_new(HTTP_RESPONSES, &limits);
	if (!r->parser) {
		remote_free(r);
		return NULL;
	}
	return r;
}

static int open_at(const struct remote_place *place, int fd, struct remote **ret,
		   struct cay_error *err)
{
	_cleanup_(remote_freep) struct remote *r = remote_new();

	if (!r) {
		(void)close(fd);
		return remote_no_memory(err);
	}
	r->place = *place;
	r->fd = fd;
	r->signals = cli_catch_signals(NULL);
	if (r->signals < 0)
		return cay_fail(err, CAY_E_INTERNAL, errno, "catch signals");
	*ret = take_ptr(&r);
	return 0;
}

int remote_open(struct remote **ret, struct cay_error *err)
{
	struct remote_place place;
	int fd;

	if (remote_place_find(&place, err) < 0 ||
	    remote_place_connect(&place, CONNECT_MS, &fd, err) < 0)
		return -1;
	return open_at(&place, fd, ret, err);
}

int remote_try(struct remote **ret, struct cay_error *err)
{
	struct remote_place place;
	const char *host = getenv("CAY_HOST");
	int fd;

	if (host && host[0])
		return remote_open(ret, err);
	/* Whatever the reason: without a daemon there is another way, which needs none. */
	if (remote_place_find(&place, err) < 0 ||
	    remote_place_connect(&place, CONNECT_MS, &fd, err) < 0)
		return 1;
	return open_at(&place, fd, ret, err);
}

int remote_signal(const struct remote *r)
{
	return r->signal;
}

int remote_signal_fd(const struct remote *r)
{
	return r->signals;
}

void remote_on_interrupt(struct remote *r, remote_interrupt_fn *fn, void *ctx)
{
	r->on_interrupt = fn;
	r->interrupt_ctx = ctx;
}

int remote_fd(const struct remote *r)
{
	return r->fd;
}

const struct remote_place *remote_place(const struct remote *r)
{
	return &r->place;
}

/* Waiting, sending */

int remote_lost(struct remote *r, int why, struct cay_error *err)
{
	char text[300];

	fd_closep(&r->fd);
	return cay_fail(err, CAY_E_ENGINE, why, "the connection to the daemon at %s is lost",
			remote_place_text(&r->place, text));
}

int remote_interrupted(struct remote *r, struct cay_error *err)
{
	struct signalfd_siginfo info = {0};

	if (read(r->signals, &info, sizeof(info)) != (ssize_t)sizeof(info))
		info.ssi_signo = SIGINT;
	if (info.ssi_signo == SIGINT && r->on_interrupt)
		return r->on_interrupt(r->interrupt_ctx, err);
	r->signal = (int)info.ssi_signo;
	fd_closep(&r->fd);
	(void)cay_fail(err, CAY_E_INTERNAL, 0, "cancelled by %s", strsignal(r->signal));
	err->exit_code = 128 + r->signal;
	return -1;
}

int remote_wait(struct remote *r, short events, int ms, struct cay_error *err)
{
	struct pollfd f[] = {{.fd = r->fd, .events = events}, {.fd = r->signals, .events = POLLIN}};
	int n;

	for (;;) {
		n = poll(f, ARRAY_LEN(f), ms);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return cay_fail(err, CAY_E_INTERNAL, errno, "wait for the daemon");
		if (!f[1].revents)
			return f[0].revents;
		if (remote_interrupted(r, err) < 0)
			return -1;
	}
}

/* 0; 1: the daemon has something to say before it is all sent, or does not listen any more; -1. */
static int send_all(struct remote *r, const char *data, size_t len, struct cay_error *err)
{
	while (len > 0) {
		ssize_t n = send(r->fd, data, len, MSG_NOSIGNAL);
		int ready;

		if (n >= 0) {
			data += n;
			len -= (size_t)n;
			continue;
		}
		if (errno == EINTR)
			continue;
		if (errno != EAGAIN)
			return errno == EPIPE || errno == ECONNRESET ? 1
								     : remote_lost(r, errno, err);
		ready = remote_wait(r, POLLIN | POLLOUT, REMOTE_IDLE_MS, err);
		if (ready <= 0)
			return ready < 0 ? -1 : remote_lost(r, ETIMEDOUT, err);
		if (ready & POLLIN)
			return 1;
	}
	return 0;
}

/* All of from_fd as chunks. As send_all(). */
static int send_chunks(struct remote *r, const struct remote_ask *ask, struct cay_error *err)
{
	char *piece = r->piece + CHUNK_LINE_BYTES;
	const size_t room = sizeof(r->piece) - CHUNK_LINE_BYTES - 2;
	int s = 0;

	while (s == 0) {
		char line[CHUNK_LINE_BYTES];
		ssize_t n = read(ask->from_fd, piece, room);
		int len;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			int why = errno;

			fd_closep(&r->fd); /* what was sent is not all there is */
			return cay_fail(err, CAY_E_INVALID, why, "read what is to be sent");
		}
		if (n == 0)
			return send_all(r, "0\r\n\r\n", 5, err);
		len = snprintf(line, sizeof(line), "%zx\r\n", (size_t)n);
		memcpy(piece - len, line, (size_t)len);
		piece[n] = '\r';
		piece[n + 1] = '\n';
		s = send_all(r, piece - len, (size_t)(len + n + 2), err);
		if (s == 0 && ask->progress)
			ask->progress(ask->progress_ctx, (size_t)n);
	}
	return s;
}

int remote_append_key(struct buf *head, struct cay_error *err)
{
	const char *key = getenv("CAY_API_KEY");

	if (!key || !key[0])
		return 0;
	for (const char *p = key; *p; p++)
		if (*p <= 0x20 || *p >= 0x7f || p - key >= KEY_MAX)
			return cay_fail(err, CAY_E_INVALID, 0, "CAY_API_KEY can't be a key");
	return buf_printf(head, "Authorization: Bearer %s\r\n", key) < 0 ? remote_no_memory(err)
									 : 0;
}

static int append_body(struct buf *out, const struct remote_ask *ask)
{
	_cleanup_(buf_done) struct buf body = BUF(REMOTE_JSON_MAX);
	bool has_body = strcmp(ask->method, "POST") == 0 || strcmp(ask->method, "PUT") == 0;
	int r = ask->json ? json_text(ask->json, &body) : 0;

	if (r == 0 && ask->streamed)
		return buf_printf(out, "Content-Type: application/octet-stream\r\n"
				       "Transfer-Encoding: chunked\r\n\r\n");
	if (r == 0 && ask->json)
		r = buf_printf(out, "Content-Type: application/json\r\n");
	if (r == 0 && (ask->json || has_body))
		r = buf_printf(out, "Content-Length: %zu\r\n", body.len);
	if (r == 0)
		r = buf_append_str(out, "\r\n");
	return r < 0 ? r : buf_append(out, body.data, body.len);
}

/* The head, and the body if it is not streamed, in one piece. */
static int send_ask(struct remote *r, const struct remote_ask *ask, struct cay_error *err)
{
	_cleanup_(buf_done) struct buf out = BUF(REMOTE_JSON_MAX + HEAD_MAX);
	char host[300];
	int s = buf_printf(
		&out, "%s %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: cay/%s\r\nAccept: %s\r\n",
		ask->method, ask->path,
		r->place.tcp ? remote_place_text(&r->place, host) + strlen("http://") : "localhost",
		CAY_VERSION, ask->events ? "text/event-stream" : "*/*");

	if (s == 0 && remote_append_key(&out, err) < 0)
		return -1;
	if (s == 0)
		s = append_body(&out, ask);
	if (s == -EFBIG)
		return cay_fail(err, CAY_E_TOO_LARGE, 0, "the request is longer than %u bytes",
				REMOTE_JSON_MAX);
	if (s < 0)
		return remote_no_memory(err);
	s = send_all(r, out.data, out.len, err);
	return s == 0 && ask->streamed ? send_chunks(r, ask, err) : s;
}

/* A connection that the daemon has closed meanwhile is of no use, and one with bytes nobody asked
 * for neither. */
static int ensure_connected(struct remote *r, struct cay_error *err)
{
	struct pollfd f = {.fd = r->fd, .events = POLLIN | POLLRDHUP};

	if (r->fd >= 0 && r->used && poll(&f, 1, 0) != 0)
		fd_closep(&r->fd);
	if (r->fd >= 0)
		return 0;
	r->used = false;
	return remote_place_connect(&r->place, CONNECT_MS, &r->fd, err);
}

int remote_send(struct remote *r, const struct remote_ask *ask, struct cay_error *err)
{
	return ensure_connected(r, err) < 0 ? -1 : send_ask(r, ask, err);
}
