#include "engine/container/docker_impl.h"

#include "base/attr.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define CONNECT_MS       10000
#define CHUNK_LINE_BYTES 16

static const struct http_limits limits = {
	.line_bytes = 4096, .head_bytes = HEAD_MAX, .header_lines = HTTP_HEADERS_MAX};

const char *docker_name(enum spec_engine engine)
{
	return engine == ENGINE_PODMAN ? "Podman" : "Docker";
}

void docker_free(struct docker *d)
{
	if (!d)
		return;
	fd_closep(&d->fd);
	http_parser_free(d->parser);
	free(d);
}

void docker_freep(struct docker **d)
{
	docker_free(*d);
}

int docker_api(const struct docker *d)
{
	return d->api;
}

bool docker_is_podman(const struct docker *d)
{
	return d->podman;
}

const struct docker_place *docker_place(const struct docker *d)
{
	return &d->place;
}

void docker_cancel_by(struct docker *d, int fd)
{
	d->cancel_fd = fd;
}

bool docker_cancelled(const struct docker *d)
{
	return d->cancelled;
}

int docker_no_memory(const struct docker *d, struct cay_error *err)
{
	return cay_fail(err, CAY_E_INTERNAL, ENOMEM, "talk to %s", docker_name(d->place.engine));
}

int docker_lost(struct docker *d, int why, const char *what, struct cay_error *err)
{
	const char *name = docker_name(d->place.engine);

	fd_closep(&d->fd);
	if (why == ETIMEDOUT)
		(void)cay_fail(err, CAY_E_ENGINE, 0, "%s: no answer from %s within %d s", what,
			       name, d->timeout_ms / 1000);
	else
		(void)cay_fail(err, CAY_E_ENGINE, why, "%s: the connection to %s at %s is lost",
			       what, name, d->place.path);
	return cay_hint(err, "is it still running? its log says why it ended or hangs");
}

int docker_not_an_engine(struct docker *d, const char *why, struct cay_error *err)
{
	fd_closep(&d->fd);
	(void)cay_fail(err, CAY_E_ENGINE, 0, "%s does not answer as %s would: %s", d->place.path,
		       docker_name(d->place.engine), why);
	return cay_hint(err, "is something else listening there?");
}

/* Connecting */

static int cannot_connect(const struct docker_place *p, int why, struct cay_error *err)
{
	const char *name = docker_name(p->engine);
	bool podman = p->engine == ENGINE_PODMAN;

	if (why == EACCES || why == EPERM) {
		(void)cay_fail(err, CAY_E_ENGINE, 0, "no permission to use %s at %s", name,
			       p->path);
		return cay_hint(
			err, podman ? "as an ordinary user, start your own: systemctl --user start "
				      "podman.socket"
				    : "who may use it is root, and who is in the group docker: "
				      "that is to be root on this machine");
	}
	(void)cay_fail(err, CAY_E_ENGINE, why, "%s can't be reached at %s", name, p->path);
	return cay_hint(
		err, podman ? "start its service: systemctl start podman.socket, or podman "
			      "system service --time=0"
			    : "start it: systemctl start docker; or say where it is: DOCKER_HOST, "
			      "or socket in [docker] of the settings");
}

static int connect_once(const struct docker_place *p, int *ret_fd)
{
	_cleanup_(fd_closep) int fd =
		socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un to = {.sun_family = AF_UNIX};

	_Static_assert(sizeof(p->path) == sizeof(to.sun_path), "a path is as long as the kernel's");
	memcpy(to.sun_path, p->path, sizeof(to.sun_path));
	if (fd < 0 || connect(fd, (const struct sockaddr *)&to, sizeof(to)) < 0)
		return -errno;
	*ret_fd = take_fd(&fd);
	return 0;
}

static int connect_to(struct docker *d, struct cay_error *err)
{
	uint64_t began = clock_now_ns();
	int r;

	d->used = false;
	/* A full backlog is no socket to wait on: only asking again helps. */
	while ((r = connect_once(&d->place, &d->fd)) == -EAGAIN &&
	       clock_ms_since(began) < CONNECT_MS)
		(void)poll(NULL, 0, 10);
	return r < 0 ? cannot_connect(&d->place, -r, err) : 0;
}

/* A connection that was closed meanwhile is of no use, and one with bytes nobody asked for neither.
 */
int docker_ensure_connected(struct docker *d, struct cay_error *err)
{
	struct pollfd f = {.fd = d->fd, .events = POLLIN | POLLRDHUP};

	if (d->fd >= 0 && d->used && poll(&f, 1, 0) != 0)
		fd_closep(&d->fd);
	return d->fd >= 0 ? 0 : connect_to(d, err);
}

struct docker *docker_new(const struct docker_place *place)
{
	struct docker *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	d->place = *place;
	d->fd = d->cancel_fd = -1;
	d->parser = http_parser_new(HTTP_RESPONSES, &limits);
	if (!d->parser) {
		free(d);
		return NULL;
	}
	return d;
}

/* Waiting, sending */

void docker_set_deadline(struct docker *d)
{
	d->until_ms = d->timeout_ms < 0 ? -1 : clock_now_ms() + d->timeout_ms;
}

/* What of events is possible now; -1. */
int docker_wait_for(struct docker *d, short events, const char *what, struct cay_error *err)
{
	struct pollfd f[] = {{.fd = d->fd, .events = events},
			     {.fd = d->cancel_fd, .events = POLLIN}};

	for (;;) {
		int64_t left = d->until_ms < 0 ? -1 : d->until_ms - clock_now_ms();
		int n = d->until_ms >= 0 && left <= 0 ? 0 : poll(f, ARRAY_LEN(f), (int)left);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return cay_fail(err, CAY_E_INTERNAL, errno, "wait for %s",
					docker_name(d->place.engine));
		if (n == 0)
			return docker_lost(d, ETIMEDOUT, what, err);
		if (!f[1].revents)
			return f[0].revents;
		d->cancelled = true;
		fd_closep(&d->fd);
		return cay_fail(err, CAY_E_INTERNAL, 0, "%s: cancelled", what);
	}
}

/* 0; 1: there is an answer before it is all sent, or nobody listens any more; -1. */
static int send_all(struct docker *d, const char *data, size_t len, const struct taker *t,
		    struct cay_error *err)
{
	while (len > 0) {
		ssize_t n = send(d->fd, data, len, MSG_NOSIGNAL);
		int ready;

		if (n >= 0) {
			data += n;
			len -= (size_t)n;
			if (t->passes)
				docker_set_deadline(d);
			continue;
		}
		if (errno == EINTR)
			continue;
		if (errno == EPIPE || errno == ECONNRESET)
			return 1;
		if (errno != EAGAIN)
			return docker_lost(d, errno, t->ask->what, err);
		ready = docker_wait_for(d, POLLIN | POLLOUT, t->ask->what, err);
		if (ready < 0)
			return -1;
		if (ready & POLLIN)
			return 1;
	}
	return 0;
}

/* All of from_fd as chunks. As send_all(). */
static int send_chunks(struct docker *d, const struct taker *t, struct cay_error *err)
{
	char *piece = d->piece + CHUNK_LINE_BYTES;
	const size_t room = sizeof(d->piece) - CHUNK_LINE_BYTES - 2;
	int s = 0;

	while (s == 0) {
		char line[CHUNK_LINE_BYTES];
		ssize_t n = read(t->ask->from_fd, piece, room);
		int len;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			int why = errno;

			fd_closep(&d->fd); /* what was sent is not all there is */
			return cay_fail(err, CAY_E_INVALID, why, "read what is to be sent");
		}
		if (n == 0)
			return send_all(d, "0\r\n\r\n", 5, t, err);
		len = snprintf(line, sizeof(line), "%zx\r\n", (size_t)n);
		memcpy(piece - len, line, (size_t)len);
		piece[n] = '\r';
		piece[n + 1] = '\n';
		s = send_all(d, piece - len, (size_t)(len + n + 2), t, err);
	}
	return s;
}

static int append_body(struct buf *out, const struct docker_ask *ask)
{
	_cleanup_(buf_done) struct buf body = BUF(DOCKER_ANSWER_MAX);
	int r = ask->json ? json_text(ask->json, &body) : 0;

	if (r == 0 && ask->streamed)
		return buf_append_str(out, "Content-Type: application/x-tar\r\n"
					   "Transfer-Encoding: chunked\r\n\r\n");
	if (r == 0 && ask->data)
		r = buf_append(&body, ask->data, ask->len);
	if (r == 0 && (ask->json || ask->data))
		r = buf_printf(out, "Content-Type: application/%s\r\n",
			       ask->json ? "json" : "x-tar");
	if (r == 0 && strcmp(ask->method, "GET") != 0)
		r = buf_printf(out, "Content-Length: %zu\r\n", body.len);
	if (r == 0)
		r = buf_append_str(out, "\r\n");
	return r < 0 ? r : buf_append(out, buf_str(&body), body.len);
}

int docker_send(struct docker *d, const struct taker *t, struct cay_error *err)
{
	_cleanup_(buf_done) struct buf out = BUF(DOCKER_ANSWER_MAX + HEAD_MAX);
	const struct docker_ask *ask = t->ask;
	char version[16] = "";
	int s;

	if (d->api > 0)
		(void)snprintf(version, sizeof(version), "/v1.%d", d->api);
	s = buf_printf(&out, "%s %s%s HTTP/1.1\r\nHost: localhost\r\nUser-Agent: cay/%s\r\n%s%s",
		       ask->method, version, ask->path, CAY_VERSION, ask->header ? ask->header : "",
		       t->hijack ? "Connection: Upgrade\r\nUpgrade: tcp\r\n" : "");
	if (s == 0)
		s = append_body(&out, ask);
	if (s == -EFBIG)
		return cay_fail(err, CAY_E_TOO_LARGE, 0, "%s: the request is longer than %u bytes",
				ask->what, DOCKER_ANSWER_MAX);
	if (s < 0)
		return docker_no_memory(d, err);
	s = send_all(d, out.data, out.len, t, err);
	return s == 0 && ask->streamed ? send_chunks(d, t, err) : s;
}
