/*
 * connection.c: one client's socket. All of its work is in run(): bytes that came are
 * parsed, handlers called, what they answered is sent, and a finished exchange makes
 * way for the next. run() goes round until nothing more can be done without the
 * kernel, then arm() says what to wait for. Whoever acts on an exchange from elsewhere
 * (a timer, another fd's callback) only leaves bytes and flags behind, and has run()
 * called by a timer of no length. So a connection is freed at one place only.
 *
 * Pipelined requests are kept apart by not looking: while an answer is pending nothing
 * is read, and what was read behind the request stays in c->input, at most one read.
 */
#include "api/connection.h"

#include "base/fd.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

/* A body that trickles in at less than this per idle time-out is too slow. */
#define BODY_PROGRESS_BYTES 1024
/* One connection's turn: somebody who always has more to send must not keep the others out. */
#define ROUNDS_MAX 16
/* Past this an empty output gives its memory back. */
#define OUTPUT_KEEP_BYTES 65536

void connection_kick(struct connection *c)
{
	if (!c->running && c->kick.place == 0)
		(void)loop_after(c->server->config.loop, &c->kick, 0);
}

void connection_break(struct connection *c)
{
	c->dead = true;
	connection_kick(c);
}

size_t connection_unsent(const struct connection *c)
{
	return c->output.len - c->sent;
}

size_t connection_put(struct connection *c, const void *data, size_t len)
{
	if (c->dead)
		return 0;
	if (c->sent > 0 && c->sent >= c->output.len / 2) {
		memmove(c->output.data, c->output.data + c->sent, connection_unsent(c));
		c->output.len -= c->sent;
		c->sent = 0;
	}
	if (buf_append(&c->output, data, len) < 0) {
		connection_break(c);
		return 0;
	}
	connection_kick(c);
	return connection_unsent(c);
}

/* Whether more bytes of the client can be used now. */
static bool wants(const struct connection *c)
{
	const struct exchange *x = c->exchange;

	switch (c->state) {
	case CONN_HEAD:
	case CONN_LINGER: /* and throws them away */
		return !c->dead;
	case CONN_RAW:
		/* What we answer to what comes must not pile up. */
		if (x->body_whole || connection_unsent(c) >= EXCHANGE_HIGH)
			return false;
		__attribute__((fallthrough));
	case CONN_BODY:
		return !c->dead && !x->paused && x->answer != ANSWER_WHOLE;
	case CONN_ANSWER:
		break;
	}
	return false;
}

static size_t parse_some(struct connection *c, const char *data, size_t len)
{
	const char *body;
	size_t used, body_len;

	switch (http_parse(c->parser, data, len, &used)) {
	case HTTP_GOT_HEAD:
		dispatch_head(c);
		break;
	case HTTP_GOT_BODY:
		body = http_parser_body(c->parser, &body_len);
		dispatch_body(c, body, body_len);
		break;
	case HTTP_GOT_END:
		dispatch_end(c);
		break;
	case HTTP_BAD:
		dispatch_refuse(c, http_parser_status(c->parser), http_parser_reason(c->parser));
		break;
	case HTTP_MORE:
		return SIZE_MAX;
	}
	return used;
}

static size_t parse_raw(struct connection *c, const char *data, size_t len)
{
	struct exchange *x = c->exchange;

	if (len > 0 && x->events && x->events->on_body)
		x->events->on_body(x, data, len);
	return SIZE_MAX;
}

size_t connection_parse(struct connection *c, const char *data, size_t len)
{
	size_t at = 0;

	while (wants(c)) {
		size_t used;

		used = c->state == CONN_RAW ? parse_raw(c, data + at, len - at)
					    : parse_some(c, data + at, len - at);
		if (used == SIZE_MAX)
			return len;
		at += used;
	}
	return at;
}

/* What was put aside first; then nothing, as a message may end without another byte. */
static void use_input(struct connection *c)
{
	size_t used;

	if (!c->parser || c->state == CONN_LINGER || !wants(c))
		return;
	used = connection_parse(c, buf_str(&c->input), c->input.len);
	if (used < c->input.len) {
		memmove(c->input.data, c->input.data + used, c->input.len - used);
		c->input.len -= used;
	} else {
		buf_done(&c->input);
	}
}

static int flush(struct connection *c)
{
	while (connection_unsent(c) > 0 && !c->dead) {
		ssize_t n = send(c->fd.fd, c->output.data + c->sent, connection_unsent(c),
				 MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			return 0;
		if (n < 0) {
			c->dead = true;
			return -1;
		}
		c->sent += (size_t)n;
		loop_cancel(c->server->config.loop, &c->output_timer);
	}
	c->output.len = c->sent = 0;
	if (c->output.cap > OUTPUT_KEEP_BYTES)
		buf_done(&c->output);
	return 0;
}

static void linger(struct connection *c)
{
	(void)shutdown(c->fd.fd, SHUT_WR);
	buf_done(&c->input);
	c->state = CONN_LINGER;
	if (c->half_closed)
		c->dead = true;
}

static void finish(struct connection *c)
{
	struct exchange *x = c->exchange;

	c->exchange = NULL;
	exchange_close(x, EXCHANGE_DONE);
	if (c->last || c->server->draining) {
		linger(c);
		return;
	}
	http_parser_reset(c->parser);
	c->state = CONN_HEAD;
	c->served = true;
	c->timing = TIMING_NONE;
}

/* See exchange.h. */
static bool gone_by_fin(const struct connection *c)
{
	const struct exchange *x = c->exchange;

	return c->half_closed && c->tcp && c->state == CONN_ANSWER && x->handled &&
	       x->answer != ANSWER_WHOLE && (x->request.match.route->flags & ROUTE_CANCELS_ON_FIN);
}

/* What follows from what was parsed and sent. Whether there is more to do. */
static bool settle(struct connection *c)
{
	struct exchange *x = c->exchange;

	if (c->dead || !x)
		return false;
	if (gone_by_fin(c)) {
		c->dead = true;
		return false;
	}
	if (c->expects && wants(c)) {
		c->expects = false;
		if (x->answer == ANSWER_NONE && x->body_seen == 0)
			(void)connection_put(c, "HTTP/1.1 100 Continue\r\n\r\n", 25);
		return true;
	}
	if (x->over_high && connection_unsent(c) < EXCHANGE_LOW) {
		x->over_high = false;
		if (x->answer != ANSWER_WHOLE && x->events && x->events->on_drain)
			x->events->on_drain(x);
		return true;
	}
	if (x->answer == ANSWER_WHOLE && connection_unsent(c) == 0) {
		finish(c);
		return c->input.len > 0;
	}
	return false;
}

static enum timing timing_of(const struct connection *c)
{
	switch (c->state) {
	case CONN_HEAD:
		return !c->served || (c->parser && http_parser_begun(c->parser)) ? TIMING_HEAD
										 : TIMING_IDLE;
	case CONN_BODY:
		return wants(c) ? TIMING_BODY : TIMING_NONE;
	case CONN_LINGER:
		return TIMING_LINGER;
	case CONN_ANSWER:
	case CONN_RAW:
		break;
	}
	return TIMING_NONE;
}

static int set_input_timer(struct connection *c)
{
	const struct server_limits *limits = &c->server->limits;
	const uint64_t ms[] = {
		[TIMING_HEAD] = limits->head_ms,
		[TIMING_IDLE] = limits->keep_alive_ms,
		[TIMING_BODY] = limits->body_idle_ms,
		[TIMING_LINGER] = limits->linger_ms,
	};
	enum timing wanted = timing_of(c);

	if (wanted == c->timing && !(wanted == TIMING_BODY && c->since >= BODY_PROGRESS_BYTES))
		return 0;
	c->timing = wanted;
	c->since = 0;
	if (wanted == TIMING_NONE) {
		loop_cancel(c->server->config.loop, &c->input_timer);
		return 0;
	}
	return loop_after(c->server->config.loop, &c->input_timer, ms[wanted]);
}

static int set_output_timer(struct connection *c)
{
	if (connection_unsent(c) == 0 || c->output_timer.place != 0)
		return 0;
	return loop_after(c->server->config.loop, &c->output_timer,
			  c->server->limits.write_stall_ms);
}

static int arm(struct connection *c)
{
	uint32_t events = 0;

	if (wants(c))
		events |= EPOLLIN;
	if (connection_unsent(c) > 0)
		events |= EPOLLOUT;
	/* Level-triggered: once it is known it must not be asked for. */
	if (!c->half_closed)
		events |= EPOLLRDHUP;
	if (set_input_timer(c) < 0 || set_output_timer(c) < 0)
		return -1;
	return loop_change(c->server->config.loop, &c->fd, events);
}

static void run(struct connection *c)
{
	bool more = true;

	c->running = true;
	for (int i = 0; more && i < ROUNDS_MAX; i++) {
		use_input(c);
		more = flush(c) == 0 && settle(c);
	}
	if (!c->dead && arm(c) < 0)
		c->dead = true;
	c->running = false;
	if (c->dead)
		connection_free(c);
	else if (more)
		connection_kick(c);
}

static void on_kick(struct loop_timer *t)
{
	run(t->ctx);
}

static void on_eof(struct connection *c)
{
	struct exchange *x = c->exchange;

	c->half_closed = true;
	switch (c->state) {
	case CONN_HEAD:
		if (c->parser && http_parse_eof(c->parser) == HTTP_BAD)
			dispatch_refuse(c, 400, "the request was cut short");
		else
			c->dead = true;
		break;
	case CONN_BODY:
		dispatch_refuse(c, 400, "the request was cut short");
		break;
	case CONN_RAW:
		x->body_whole = true;
		if (x->events && x->events->on_body_end)
			x->events->on_body_end(x);
		break;
	case CONN_LINGER:
		c->dead = true;
		break;
	case CONN_ANSWER:
		break;
	}
}

static int need_parser(struct connection *c)
{
	const struct server_limits *l = &c->server->limits;
	const struct http_limits limits = {l->line_bytes, l->head_bytes, l->header_lines};

	if (!c->parser)
		c->parser = http_parser_new(HTTP_REQUESTS, &limits);
	return c->parser ? 0 : -1;
}

static void take(struct connection *c, const char *data, size_t len)
{
	size_t used;

	if (c->state == CONN_LINGER)
		return;
	if (need_parser(c) < 0) {
		c->dead = true;
		return;
	}
	used = connection_parse(c, data, len);
	if (used < len && buf_append(&c->input, data + used, len - used) < 0)
		c->dead = true;
}

static void receive(struct connection *c)
{
	ssize_t n;

	do
		n = recv(c->fd.fd, c->server->input, sizeof(c->server->input), MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	if (n > 0)
		take(c, c->server->input, (size_t)n);
	else if (n == 0)
		on_eof(c);
	else if (errno != EAGAIN && errno != EWOULDBLOCK)
		c->dead = true;
}

static void ready(struct loop_fd *f, uint32_t events)
{
	struct connection *c = f->ctx;

	c->running = true;
	if (events & (EPOLLERR | EPOLLHUP))
		c->dead = true;
	if (!c->dead && (events & EPOLLIN) && wants(c) && c->input.len == 0)
		receive(c);
	if (events & EPOLLRDHUP)
		c->half_closed = true;
	run(c);
}

static void on_input_timer(struct loop_timer *t)
{
	struct connection *c = t->ctx;

	c->running = true;
	if (c->state == CONN_HEAD && c->parser && http_parser_begun(c->parser))
		dispatch_refuse(c, 408, "the head of the request was too slow");
	else if (c->state == CONN_BODY)
		dispatch_refuse(c, 408, "the body of the request was too slow");
	else
		c->dead = true;
	run(c);
}

static void on_output_timer(struct loop_timer *t)
{
	struct connection *c = t->ctx;

	c->dead = true;
	run(c);
}

void connection_free(struct connection *c)
{
	struct loop *l = c->server->config.loop;
	struct exchange *x = c->exchange;

	c->running = c->dead = true; /* nothing that is called from here kicks it */
	c->exchange = NULL;
	if (x)
		exchange_close(x, EXCHANGE_GONE);
	loop_cancel(l, &c->input_timer);
	loop_cancel(l, &c->output_timer);
	loop_cancel(l, &c->kick);
	loop_remove(l, &c->fd);
	fd_closep(&c->fd.fd);
	server_forget(c);
	http_parser_free(c->parser);
	buf_done(&c->input);
	buf_done(&c->output);
	free(c);
}

void connection_new(struct listener *l, int fd, bool refused)
{
	struct server *s = l->server;
	struct connection *c = calloc(1, sizeof(*c));

	if (!c) {
		fd_closep(&fd);
		return;
	}
	c->server = s;
	c->listener = l;
	c->tcp = l->tcp;
	c->refused = refused;
	c->fd = (struct loop_fd){.fd = fd, .ready = ready, .ctx = c};
	c->input_timer = (struct loop_timer){.fire = on_input_timer, .ctx = c};
	c->output_timer = (struct loop_timer){.fire = on_output_timer, .ctx = c};
	c->kick = (struct loop_timer){.fire = on_kick, .ctx = c};
	c->input = BUF(INPUT_BYTES);
	c->output = BUF(s->limits.output_bytes);
	server_remember(c);
	c->running = true;
	if (peer_of(fd, l->tcp, &c->peer) < 0 || loop_add(s->config.loop, &c->fd, EPOLLRDHUP) < 0)
		c->dead = true;
	else if (refused)
		dispatch_refuse(c, 503, "there are too many connections");
	run(c);
}
