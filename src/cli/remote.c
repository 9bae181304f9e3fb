#include "cli/remote_impl.h"

#include "base/attr.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/json.h"
#include "cli/remote_sse.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

/* Who takes an answer. */
struct taker {
	const struct remote_ask *ask;
	int (*take)(struct taker *t, const char *data, size_t len, struct cay_error *err);
	struct buf refusal; /* the body, where the status says that it is one */
	int status;
	bool stop; /* the rest is of no interest */
	/* One of these is whom it is for. */
	struct buf *into;
	remote_body_fn *body_fn;
	remote_event_fn *event_fn;
	void *ctx;
	struct sse sse;
	struct cay_error *err;
};

static int not_ours(struct remote *r, const char *why, struct cay_error *err)
{
	char text[300];

	fd_closep(&r->fd);
	(void)cay_fail(err, CAY_E_ENGINE, 0, "%s does not answer as a daemon of cay would: %s",
		       remote_place_text(&r->place, text), why);
	return cay_hint(err, "is something else listening there?");
}

static bool is_success(int status)
{
	return status >= 200 && status < 300;
}

static int on_head(struct remote *r, struct taker *t, struct cay_error *err)
{
	const struct http_head *head = http_parser_head(r->parser);
	const char *type = http_header(head, "content-type");

	t->status = head->status;
	if (t->status < 200 || (t->status >= 300 && t->status < 400))
		return not_ours(r, http_status_text(t->status), err);
	if (is_success(t->status) && t->ask->events &&
	    (!type || strncasecmp(type, "text/event-stream", 17) != 0))
		return not_ours(r, "no events where some were asked for", err);
	return 0;
}

static int on_body(struct remote *r, struct taker *t, struct cay_error *err)
{
	size_t len;
	const char *data = http_parser_body(r->parser, &len);

	if (is_success(t->status)) {
		if (t->ask->progress && !t->ask->streamed)
			t->ask->progress(t->ask->progress_ctx, len);
		return t->take(t, data, len, err);
	}
	/* Of a refusal that is longer than any of ours, what fits is as good as the rest. */
	(void)buf_append(&t->refusal, data, size_min(len, t->refusal.max - t->refusal.len));
	return 0;
}

/* 1: the answer is there, or enough of it. */
static int on_bytes(struct remote *r, struct taker *t, const char *data, size_t len,
		    struct cay_error *err)
{
	enum http_event e;
	size_t used;
	int s = 0;

	while (s == 0 && (e = http_parse(r->parser, data, len, &used)) != HTTP_MORE) {
		data += used;
		len -= used;
		if (e == HTTP_BAD)
			return not_ours(r, http_parser_reason(r->parser), err);
		if (e == HTTP_GOT_END)
			return 1;
		s = e == HTTP_GOT_HEAD ? on_head(r, t, err) : on_body(r, t, err);
	}
	return s < 0 ? -1 : t->stop;
}

static int on_end(struct remote *r, struct cay_error *err)
{
	enum http_event e = http_parse_eof(r->parser);

	return e == HTTP_GOT_END ? 1 : remote_lost(r, 0, err);
}

static int receive(struct remote *r, struct taker *t, struct cay_error *err)
{
	int s = 0;

	while (s == 0) {
		ssize_t n = recv(r->fd, r->piece, sizeof(r->piece), 0);

		if (n > 0) {
			s = on_bytes(r, t, r->piece, (size_t)n, err);
		} else if (n == 0) {
			s = on_end(r, err);
		} else if (errno == EAGAIN) {
			s = remote_wait(r, POLLIN, t->ask->patient ? -1 : REMOTE_IDLE_MS, err);
			s = s < 0 ? -1 : s == 0 ? remote_lost(r, ETIMEDOUT, err) : 0;
		} else if (errno != EINTR) {
			s = remote_lost(r, errno, err);
		}
	}
	return s < 0 ? -1 : 0;
}

/* Whether the next request may follow on the same connection. */
static void finish(struct remote *r, const struct taker *t, bool cut)
{
	const struct http_head *head = http_parser_head(r->parser);

	if (cut || t->stop || !head || !head->keep_alive)
		fd_closep(&r->fd);
	r->used = true;
}

/* 0, 1: the daemon answered before all was sent, or -1. */
static int ask_once(struct remote *r, struct taker *t, struct cay_error *err)
{
	int s;

	http_parser_reset(r->parser);
	s = remote_send(r, t->ask, err);
	return s < 0 || receive(r, t, err) < 0 ? -1 : s;
}

/* A connection that was kept may be closed just when it is used again: nothing was lost then. */
static bool may_ask_again(const struct remote *r, const struct taker *t, bool kept)
{
	return kept && !r->signal && strcmp(t->ask->method, "GET") == 0 &&
	       !http_parser_begun(r->parser);
}

static int converse(struct remote *r, struct taker *t, struct cay_error *err)
{
	bool kept = r->used && r->fd >= 0;
	int s;

	t->refusal = BUF(REFUSAL_MAX);
	s = ask_once(r, t, err);
	if (s < 0 && may_ask_again(r, t, kept)) {
		fd_closep(&r->fd);
		s = ask_once(r, t, err);
	}
	if (s < 0) {
		fd_closep(&r->fd);
		s = -1;
	} else {
		finish(r, t, s == 1);
		s = is_success(t->status)
			    ? 0
			    : remote_refusal(t->status, buf_str(&t->refusal), t->refusal.len, err);
	}
	buf_done(&t->refusal);
	return s;
}

/* What is made of an answer */

static int take_whole(struct taker *t, const char *data, size_t len, struct cay_error *err)
{
	int r = buf_append(t->into, data, len);

	if (r == -EFBIG)
		return cay_fail(err, CAY_E_TOO_LARGE, 0, "the answer is longer than %zu bytes",
				t->into->max);
	return r < 0 ? remote_no_memory(err) : 0;
}

int remote_json(struct remote *r, const struct remote_ask *ask, struct json **ret,
		struct cay_error *err)
{
	_cleanup_(buf_done) struct buf body = BUF(REMOTE_JSON_MAX);
	struct taker t = {.ask = ask, .take = take_whole, .into = &body};
	struct json_fault fault;
	int e;

	*ret = NULL;
	if (converse(r, &t, err) < 0)
		return -1;
	if (body.len == 0 && t.status == 204)
		return 0;
	e = json_parse(buf_str(&body), body.len, REMOTE_JSON_MAX, ret, &fault);
	if (e == -ENOMEM)
		return remote_no_memory(err);
	return e < 0 ? not_ours(r, e == -EINVAL ? fault.what : "too much of it", err) : 0;
}

static int take_piece(struct taker *t, const char *data, size_t len, struct cay_error *err)
{
	return t->body_fn(t->ctx, data, len, err);
}

int remote_body(struct remote *r, const struct remote_ask *ask, remote_body_fn *fn, void *ctx,
		struct cay_error *err)
{
	struct taker t = {.ask = ask, .take = take_piece, .body_fn = fn, .ctx = ctx};

	return converse(r, &t, err);
}

static int on_event(void *ctx, const char *name, const char *data, size_t len)
{
	_cleanup_(json_freep) struct json *j = NULL;
	struct taker *t = ctx;
	struct json_fault fault;
	int r = json_parse(data, len, REMOTE_EVENT_MAX, &j, &fault);

	if (r == -ENOMEM)
		return r;
	r = t->event_fn(t->ctx, name, j, t->err);
	return r < 0 ? -ECANCELED : r;
}

static int take_events(struct taker *t, const char *data, size_t len, struct cay_error *err)
{
	int r;

	t->err = err;
	r = sse_feed(&t->sse, data, len, on_event, t);
	if (r == -EFBIG)
		return cay_fail(err, CAY_E_TOO_LARGE, 0, "an event is longer than %u bytes",
				REMOTE_EVENT_MAX);
	if (r < 0)
		return r == -ECANCELED ? -1 : remote_no_memory(err);
	t->stop |= r == 1;
	return 0;
}

int remote_events(struct remote *r, const struct remote_ask *ask, bool may_end, remote_event_fn *fn,
		  void *ctx, struct cay_error *err)
{
	struct taker t = {.ask = ask, .take = take_events, .event_fn = fn, .ctx = ctx};
	int s;

	sse_init(&t.sse, REMOTE_EVENT_MAX);
	s = converse(r, &t, err);
	sse_done(&t.sse);
	return s == 0 && !t.stop && !may_end ? remote_lost(r, 0, err) : s;
}
