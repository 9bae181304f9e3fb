#include "engine/container/docker_impl.h"

#include "base/attr.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/parse.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

/* The newest of which it is known that it still takes DOCKER_API_MOST. */
#define API_KNOWN 51

static bool is_success(int status)
{
	return (status >= 200 && status < 300) || status == 304;
}

static int on_head(struct docker *d, struct taker *t, struct cay_error *err)
{
	const struct http_head *head = http_parser_head(d->parser);

	t->status = head->status;
	if (head->status == 101 ? !t->hijack : head->status < 200)
		return docker_not_an_engine(d, "an answer that is none", err);
	return t->head && t->head(d, head) < 0
		       ? docker_not_an_engine(d, "no version in its answer", err)
		       : 0;
}

static int on_body(struct docker *d, struct taker *t, struct cay_error *err)
{
	size_t len;
	const char *data = http_parser_body(d->parser, &len);

	if (t->passes)
		docker_set_deadline(d);
	if (is_success(t->status))
		return t->take ? t->take(t, data, len, err) : 0;
	(void)buf_append(&t->refusal, data, size_min(len, t->refusal.max - t->refusal.len));
	return 0;
}

/* The rest belongs to another protocol. */
static int on_hijacked(struct docker *d, struct taker *t, const char *data, size_t len,
		       struct cay_error *err)
{
	if (buf_append(&t->hijack->early, data, len) < 0)
		return docker_no_memory(d, err);
	t->hijack->fd = take_fd(&d->fd);
	return 1;
}

/* 1: the answer is there, or enough of it. */
static int on_bytes(struct docker *d, struct taker *t, const char *data, size_t len,
		    struct cay_error *err)
{
	enum http_event e;
	size_t used;
	int s = 0;

	while (s == 0 && !t->stop && (e = http_parse(d->parser, data, len, &used)) != HTTP_MORE) {
		data += used;
		len -= used;
		if (e == HTTP_BAD)
			return docker_not_an_engine(d, http_parser_reason(d->parser), err);
		if (e == HTTP_GOT_END)
			return 1;
		if (e == HTTP_GOT_BODY) {
			s = on_body(d, t, err);
			continue;
		}
		s = on_head(d, t, err);
		if (s == 0 && t->hijack && (t->status == 101 || t->status == 200))
			return on_hijacked(d, t, data, len, err);
	}
	return s < 0 ? -1 : t->stop;
}

/* What there is without waiting: 0 more may come, 1 the answer is there, -1; -EAGAIN: nothing yet.
 */
static int receive_some(struct docker *d, struct taker *t, struct cay_error *err)
{
	ssize_t n;

	do
		n = recv(d->fd, d->piece, sizeof(d->piece), 0);
	while (n < 0 && errno == EINTR);
	if (n > 0)
		return on_bytes(d, t, d->piece, (size_t)n, err);
	if (n == 0 && http_parse_eof(d->parser) == HTTP_GOT_END)
		return 1;
	if (n < 0 && errno == EAGAIN)
		return -EAGAIN;
	return docker_lost(d, n < 0 ? errno : 0, t->ask->what, err);
}

static int receive(struct docker *d, struct taker *t, bool only_head, struct cay_error *err)
{
	int s = 0;

	while (s == 0 && !(only_head && t->status != 0 && is_success(t->status))) {
		s = receive_some(d, t, err);
		if (s == -EAGAIN)
			s = docker_wait_for(d, POLLIN, t->ask->what, err) < 0 ? -1 : 0;
	}
	return s;
}

static int send_for(struct docker *d, struct taker *t, struct cay_error *err)
{
	t->refusal = BUF(DOCKER_REFUSAL_MAX);
	d->cancelled = false;
	d->timeout_ms = t->ask->timeout_ms ? t->ask->timeout_ms : DOCKER_CALL_MS;
	if (docker_ensure_connected(d, err) < 0)
		return -1;
	http_parser_reset(d->parser);
	docker_set_deadline(d);
	return docker_send(d, t, err);
}

/* Whether the answer is one to be glad about. */
static int judge(struct docker *d, struct taker *t, struct cay_error *err)
{
	if (t->status == 101 || is_success(t->status))
		return 0;
	return docker_refused(d->place.engine, t->ask->what, t->status, buf_str(&t->refusal),
			      t->refusal.len, err);
}

static int converse(struct docker *d, struct taker *t, struct cay_error *err)
{
	int sent = send_for(d, t, err);
	int r = sent < 0 || receive(d, t, false, err) < 0 ? -1 : 0;
	const struct http_head *head = http_parser_head(d->parser);

	/* A request that was cut short, or an answer, leaves a connection nobody can use. */
	if (r < 0 || sent == 1 || t->stop || !head->keep_alive)
		fd_closep(&d->fd);
	d->used = true;
	r = r < 0 ? -1 : judge(d, t, err);
	buf_done(&t->refusal);
	return r;
}

static int take_whole(struct taker *t, const char *data, size_t len, struct cay_error *err)
{
	int r = buf_append(t->into, data, len);

	if (r == -EFBIG)
		return cay_fail(err, CAY_E_TOO_LARGE, 0, "%s: the answer is longer than %zu bytes",
				t->ask->what, t->into->max);
	return r < 0 ? cay_fail(err, CAY_E_INTERNAL, ENOMEM, "%s", t->ask->what) : 0;
}

static int parse_answer(struct docker *d, const struct buf *body, struct json **ret,
			struct cay_error *err)
{
	struct json_fault fault;
	int e;

	*ret = NULL;
	if (body->len == 0)
		return 0;
	e = json_parse(buf_str(body), body->len, body->max, ret, &fault);
	if (e == -ENOMEM)
		return docker_no_memory(d, err);
	return e < 0 ? docker_not_an_engine(d, e == -EINVAL ? fault.what : "too much of it", err)
		     : 0;
}

int docker_json(struct docker *d, const struct docker_ask *ask, struct json **ret,
		struct cay_error *err)
{
	_cleanup_(buf_done) struct buf body = BUF(DOCKER_ANSWER_MAX);
	struct taker t = {.ask = ask,
			  .take = ret ? take_whole : NULL,
			  .into = &body,
			  .passes = ask->streamed};

	if (ret)
		*ret = NULL;
	if (converse(d, &t, err) < 0)
		return -1;
	return ret ? parse_answer(d, &body, ret, err) : 0;
}

static int take_piece(struct taker *t, const char *data, size_t len, struct cay_error *err)
{
	return t->bytes_fn(t->ctx, data, len, err);
}

int docker_bytes(struct docker *d, const struct docker_ask *ask, docker_bytes_fn *fn, void *ctx,
		 struct cay_error *err)
{
	struct taker t = {
		.ask = ask, .take = take_piece, .bytes_fn = fn, .ctx = ctx, .passes = true};

	return converse(d, &t, err);
}

/* One line; what is no object is not for us. */
static int take_line(struct taker *t, struct cay_error *err)
{
	_cleanup_(json_freep) struct json *j = NULL;
	struct json_fault fault;
	int r = json_parse(buf_str(t->into), t->into->len, t->into->max, &j, &fault);

	t->into->len = 0;
	if (r == -ENOMEM)
		return cay_fail(err, CAY_E_INTERNAL, ENOMEM, "%s", t->ask->what);
	if (r < 0 || json_kind(j) != JSON_KIND_OBJECT)
		return 0;
	r = t->object_fn(t->ctx, j, err);
	t->stop |= r == 1;
	return r < 0 ? -1 : 0;
}

static int take_lines(struct taker *t, const char *data, size_t len, struct cay_error *err)
{
	int s = 0;

	while (len > 0 && s == 0 && !t->stop) {
		const char *end = memchr(data, '\n', len);
		size_t n = end ? (size_t)(end - data) + 1 : len;

		s = take_whole(t, data, n, err);
		if (s == 0 && end)
			s = take_line(t, err);
		data += n;
		len -= n;
	}
	return s;
}

int docker_objects(struct docker *d, const struct docker_ask *ask, docker_object_fn *fn, void *ctx,
		   struct cay_error *err)
{
	_cleanup_(buf_done) struct buf line = BUF(DOCKER_LINE_MAX);
	struct taker t = {.ask = ask,
			  .take = take_lines,
			  .into = &line,
			  .object_fn = fn,
			  .ctx = ctx,
			  .passes = true};

	if (converse(d, &t, err) < 0)
		return -1;
	return !t.stop && line.len > 0 ? take_line(&t, err) : 0;
}

void docker_stream_done(struct docker_stream *s)
{
	fd_closep(&s->fd);
	buf_done(&s->early);
}

int docker_hijack(struct docker *d, const struct docker_ask *ask, struct docker_stream *ret,
		  struct cay_error *err)
{
	struct taker t = {.ask = ask, .hijack = ret};

	if (converse(d, &t, err) < 0)
		return -1;
	return ret->fd >= 0 ? 0 : docker_not_an_engine(d, "no stream where one was asked for", err);
}

/* Calls that last */

void docker_later_done(struct docker_later *l)
{
	l->fd = -1;
	docker_free(take_ptr(&l->own));
	buf_done(&l->body);
}

int docker_begin(struct docker *d, const struct docker_ask *ask, struct docker_later *ret,
		 struct cay_error *err)
{
	struct taker t = {.ask = ask, .take = take_whole, .into = &ret->body};
	struct docker *own = docker_new(&d->place);
	int r;

	if (!own)
		return docker_no_memory(d, err);
	ret->own = own;
	own->api = d->api;
	own->podman = d->podman;
	own->cancel_fd = d->cancel_fd;
	r = send_for(own, &t, err) < 0 || receive(own, &t, true, err) < 0 ? -1
									  : judge(own, &t, err);
	d->cancelled = own->cancelled;
	buf_done(&t.refusal);
	if (r < 0)
		docker_later_done(ret);
	else
		ret->fd = own->fd;
	return r;
}

int docker_later(struct docker_later *l, struct json **ret, struct cay_error *err)
{
	const struct docker_ask ask = {.what = "wait for the end of a container"};
	struct taker t = {.ask = &ask, .take = take_whole, .into = &l->body, .status = 200};
	int s;

	*ret = NULL;
	do
		s = on_bytes(l->own, &t, "", 0, err);
	while (s == 0 && (s = receive_some(l->own, &t, err)) == 0);
	if (s == -EAGAIN)
		return 0;
	return s < 0 || parse_answer(l->own, &l->body, ret, err) < 0 ? -1 : 1;
}

/* Versions */

/* "1.41" -> 41; -1 */
static int minor_of(const char *version)
{
	uint64_t n;

	if (!version || strncmp(version, "1.", 2) != 0 || parse_u64(version + 2, 0, 9999, &n) < 0)
		return -1;
	return (int)n;
}

static int ping_head(struct docker *d, const struct http_head *head)
{
	int api;

	if (!is_success(head->status))
		return 0;
	api = minor_of(http_header(head, "api-version"));
	d->podman = http_header(head, "libpod-api-version") != NULL;
	if (api < 0)
		return -1;
	d->api = api;
	return 0;
}

/* The least that a daemon takes which is newer than any we know. */
static int ask_least(struct docker *d, int *ret, struct cay_error *err)
{
	const struct docker_ask ask = {
		.method = "GET", .path = "/version", .what = "ask for the version"};
	_cleanup_(json_freep) struct json *j = NULL;
	const struct json *least;

	d->api = 0;
	if (docker_json(d, &ask, &j, err) < 0)
		return -1;
	least = j ? json_get(j, "MinAPIVersion") : NULL;
	*ret = minor_of(least ? json_str(least) : NULL);
	return 0;
}

static int agree(struct docker *d, struct cay_error *err)
{
	const struct docker_ask ask = {
		.method = "GET", .path = "/_ping", .what = "ask for the version"};
	struct taker t = {.ask = &ask, .head = ping_head};
	int newest, least = 0;

	if (converse(d, &t, err) < 0)
		return -1;
	newest = d->api;
	if (newest < DOCKER_API_LEAST) {
		(void)cay_fail(err, CAY_E_ENGINE, 0,
			       "%s at %s is too old: it speaks API 1.%d, and 1.%d is needed",
			       docker_name(d->place.engine), d->place.path, newest,
			       DOCKER_API_LEAST);
		return cay_hint(err, "Docker 20.10 and Podman 4 are the oldest that can be used");
	}
	if (newest > API_KNOWN && ask_least(d, &least, err) < 0)
		return -1;
	d->api = newest < DOCKER_API_MOST ? newest : DOCKER_API_MOST;
	if (least > d->api)
		d->api = least;
	return 0;
}

int docker_open(const struct docker_place *place, struct docker **ret, struct cay_error *err)
{
	_cleanup_(docker_freep) struct docker *d = docker_new(place);

	if (!d)
		return cay_fail(err, CAY_E_INTERNAL, ENOMEM, "talk to %s",
				docker_name(place->engine));
	if (agree(d, err) < 0)
		return -1;
	*ret = take_ptr(&d);
	return 0;
}
