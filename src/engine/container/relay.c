#include "engine/container/relay.h"

#include "base/attr.h"
#include "base/fd.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define READ_BYTES (64u << 10)
/* Streams are read while less than this waits to be sent. */
#define SENDING_FULL (128u << 10)
/* Room is told of when there is so much. */
#define CREDIT_LEAST (WIRE_WINDOW / 4)

struct relay_stream {
	struct relay *relay;
	uint32_t command;
	enum wire_stream which;
	bool inward; /* from fd to the other side */
	struct loop_fd fd;
	bool direct;        /* its fd is none to be waited for, and never blocks */
	uint64_t credit;    /* inward: may be sent; else: may still come */
	uint64_t passed_on; /* not told of yet */
	bool last;          /* no more will come */
	struct buf waiting; /* for fd */
	size_t start;       /* of it */
	struct relay_stream *next;
};

static void arm_out(struct relay *r);

static void fail(struct relay *r, const char *why)
{
	if (r->over)
		return;
	r->over = true;
	loop_remove(r->loop, &r->in);
	loop_remove(r->loop, &r->out);
	r->events->ended(r, why);
}

static struct relay_stream *find(const struct relay *r, uint32_t command, uint32_t which)
{
	struct relay_stream *s = r->streams;

	while (s && (s->command != command || s->which != which))
		s = s->next;
	return s;
}

static void stream_free(struct relay_stream *s)
{
	struct relay *r = s->relay;
	struct relay_stream **at = &r->streams;

	while (*at != s)
		at = &(*at)->next;
	*at = s->next;
	r->n_streams--;
	loop_remove(r->loop, &s->fd);
	fd_closep(&s->fd.fd);
	buf_done(&s->waiting);
	free(s);
}

/* It is over; the other side is told unless it was its word. */
static void stream_end(struct relay_stream *s, bool tell)
{
	struct relay *r = s->relay;
	uint32_t command = s->command;
	struct wire_head h = {.kind = WIRE_CLOSE, .command = command, .stream = s->which};

	stream_free(s);
	if (tell && !r->over && buf_append(&r->sending, &h, sizeof(h)) < 0)
		fail(r, "it takes nothing any more");
	arm_out(r);
	if (!r->over)
		r->events->closed(r, command);
}

static bool may_send(const struct relay *r)
{
	return !r->over && r->sending.len - r->sent < SENDING_FULL;
}

/* Where it is not wanted it is not watched at all: its end would be told again and again. */
static void watch(struct relay_stream *s, uint32_t events, bool wanted)
{
	struct loop *l = s->relay->loop;
	int r;

	if (s->direct)
		return;
	if (!wanted) {
		loop_remove(l, &s->fd);
		return;
	}
	r = s->fd.added ? loop_change(l, &s->fd, events) : loop_add(l, &s->fd, events);
	s->direct = r == -EPERM; /* /dev/null */
}

static void arm_stream(struct relay_stream *s)
{
	if (s->inward)
		watch(s, EPOLLIN, s->credit > 0 && may_send(s->relay));
	else
		watch(s, s->waiting.len > s->start ? EPOLLOUT : 0, true);
}

static void arm_all(struct relay *r)
{
	for (struct relay_stream *s = r->streams; s; s = s->next)
		if (s->inward)
			arm_stream(s);
}

static void flush_out(struct relay *r)
{
	while (r->sending.len > r->sent) {
		ssize_t n = write(r->out.fd, r->sending.data + r->sent, r->sending.len - r->sent);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n < 0) {
			/* What it said last may still be there to be read. */
			r->sending.len = r->sent = 0;
			return;
		}
		r->sent += (size_t)n;
	}
	r->sending.len = r->sent = 0;
}

/* Bytes that were sent make room. */
static void pack_out(struct relay *r)
{
	if (r->sent < SENDING_FULL)
		return;
	memmove(r->sending.data, r->sending.data + r->sent, r->sending.len - r->sent);
	r->sending.len -= r->sent;
	r->sent = 0;
}

static void arm_out(struct relay *r)
{
	bool waits;
	int e = 0;

	if (r->over)
		return;
	flush_out(r);
	pack_out(r);
	waits = r->sending.len > r->sent;
	if (r->in.fd == r->out.fd)
		e = loop_change(r->loop, &r->in, waits ? EPOLLIN | EPOLLOUT : EPOLLIN);
	else if (waits && !r->out.added)
		e = loop_add(r->loop, &r->out, EPOLLOUT);
	else if (!waits)
		loop_remove(r->loop, &r->out);
	if (e < 0)
		fail(r, "it can't be waited for");
}

int relay_say(struct relay *r, enum wire_kind kind, uint32_t command, const void *head,
	      size_t head_len, const void *tail, size_t tail_len)
{
	struct wire_head h = {
		.kind = kind, .command = command, .len = (uint32_t)(head_len + tail_len)};
	int e = 0;

	if (r->over)
		return -EPIPE;
	if (head_len > WIRE_BODY_MAX || tail_len > WIRE_BODY_MAX - head_len)
		return -EFBIG;
	e = buf_append(&r->sending, &h, sizeof(h));
	if (e == 0)
		e = buf_append(&r->sending, head, head_len);
	if (e == 0)
		e = buf_append(&r->sending, tail, tail_len);
	if (e < 0)
		fail(r, "it takes nothing any more");
	else
		arm_out(r);
	return e;
}

static int say_data(struct relay_stream *s, const char *data, size_t len)
{
	struct wire_head h = {
		.kind = WIRE_DATA, .command = s->command, .stream = s->which, .len = (uint32_t)len};
	int e = buf_append(&s->relay->sending, &h, sizeof(h));

	return e < 0 ? e : buf_append(&s->relay->sending, data, len);
}

/* What a channel says comes behind what was printed before: those who hear it count on that. */
static const enum wire_stream printed[] = {WIRE_OUT, WIRE_ERR};

static bool can_be_read(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, 0) > 0 && p.revents & POLLIN;
}

static void read_stream(struct relay_stream *s);

/* False: there is more than there is room for. May end the relay. */
static bool read_printed(struct relay *r, uint32_t command)
{
	for (size_t n = 0; n < ARRAY_LEN(printed); n++) {
		struct relay_stream *s;

		while ((s = find(r, command, printed[n])) && s->inward && can_be_read(s->fd.fd)) {
			if (s->credit == 0 || !may_send(r))
				return false;
			read_stream(s);
		}
	}
	return !r->over;
}

static void read_stream(struct relay_stream *s)
{
	struct relay *r = s->relay;
	char chunk[WIRE_CHUNK];
	size_t most = s->credit < sizeof(chunk) ? (size_t)s->credit : sizeof(chunk);
	ssize_t n;

	if (most == 0 || !may_send(r)) {
		arm_stream(s);
		return;
	}
	if (s->which == WIRE_BACK && !read_printed(r, s->command)) {
		if (!r->over)
			watch(s, 0, false);
		return;
	}
	n = read(s->fd.fd, chunk, most);
	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	/* A terminal that everybody has left is an error to read. */
	if (n <= 0) {
		stream_end(s, true);
		return;
	}
	s->credit -= (uint64_t)n;
	if (say_data(s, chunk, (size_t)n) < 0) {
		fail(r, "it takes nothing any more");
		return;
	}
	arm_out(r);
	if (!r->over)
		arm_all(r);
}

static void tell_room(struct relay_stream *s)
{
	struct relay *r = s->relay;
	struct wire_head h = {
		.kind = WIRE_CREDIT, .command = s->command, .stream = s->which, .len = 8};

	if (s->passed_on < CREDIT_LEAST || s->last)
		return;
	if (buf_append(&r->sending, &h, sizeof(h)) < 0 ||
	    buf_append(&r->sending, &s->passed_on, sizeof(s->passed_on)) < 0) {
		fail(r, "it takes nothing any more");
		return;
	}
	s->credit += s->passed_on;
	s->passed_on = 0;
	arm_out(r);
}

static bool printed_waits(const struct relay *r, uint32_t command)
{
	for (size_t n = 0; n < ARRAY_LEN(printed); n++) {
		const struct relay_stream *s = find(r, command, printed[n]);

		if (s && !s->inward && s->waiting.len > s->start)
			return true;
	}
	return false;
}

/* Passes on what waits. */
static void write_stream(struct relay_stream *s)
{
	if (s->which == WIRE_BACK && printed_waits(s->relay, s->command))
		return; /* it is its turn when they are through */
	while (s->waiting.len > s->start) {
		ssize_t n = write(s->fd.fd, s->waiting.data + s->start, s->waiting.len - s->start);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			break;
		if (n < 0) {
			stream_end(s, !s->last);
			return;
		}
		s->start += (size_t)n;
		s->passed_on += (uint64_t)n;
	}
	if (s->waiting.len == s->start)
		s->waiting.len = s->start = 0;
	if (s->last && s->waiting.len == 0) {
		stream_end(s, false);
		return;
	}
	arm_stream(s);
	tell_room(s);
}

static void on_stream(struct loop_fd *f, uint32_t events)
{
	struct relay_stream *s = f->ctx;
	struct relay *r = s->relay;
	uint32_t command = s->command;
	bool back = s->which == WIRE_BACK;

	if (s->inward)
		read_stream(s);
	else if (events & (EPOLLERR | EPOLLHUP))
		stream_end(s, !s->last); /* nobody reads it any more */
	else
		write_stream(s);
	s = back || r->over ? NULL : find(r, command, WIRE_BACK);
	if (s && !s->inward && (s->waiting.len > s->start || s->last))
		write_stream(s);
}

static int stream_new(struct relay *r, uint32_t command, enum wire_stream which, int fd,
		      bool inward, struct relay_stream **ret)
{
	struct relay_stream *s;

	if (r->over || r->n_streams >= RELAY_STREAMS_MAX || find(r, command, which)) {
		fd_closep(&fd);
		return r->over ? -EPIPE : -EMFILE;
	}
	s = calloc(1, sizeof(*s));
	if (!s || fd_set_nonblock(fd, 1) < 0) {
		free(s);
		fd_closep(&fd);
		return -ENOMEM;
	}
	*s = (struct relay_stream){
		.relay = r,
		.command = command,
		.which = which,
		.inward = inward,
		.fd = {.fd = fd, .ready = on_stream, .ctx = s},
		.credit = WIRE_WINDOW,
		.waiting = BUF(WIRE_WINDOW),
		.next = r->streams,
	};
	r->streams = s;
	r->n_streams++;
	*ret = s;
	return 0;
}

int relay_from(struct relay *r, uint32_t command, enum wire_stream which, int fd)
{
	struct relay_stream *s;
	int e = stream_new(r, command, which, fd, true, &s);

	if (e < 0)
		return e;
	arm_stream(s);
	if (s->direct)
		stream_end(s, true); /* there is nothing to read */
	return 0;
}

int relay_to(struct relay *r, uint32_t command, enum wire_stream which, int fd)
{
	struct relay_stream *s;
	int e = stream_new(r, command, which, fd, false, &s);

	if (e == 0)
		arm_stream(s);
	return e;
}

void relay_drop(struct relay *r, uint32_t command)
{
	for (struct relay_stream *s = r->streams, *next; s; s = next) {
		next = s->next;
		if (s->command == command)
			stream_free(s);
	}
}

size_t relay_open(const struct relay *r, uint32_t command)
{
	size_t n = 0;

	for (const struct relay_stream *s = r->streams; s; s = s->next)
		n += s->command == command;
	return n;
}

int relay_fd(const struct relay *r, uint32_t command, enum wire_stream which)
{
	const struct relay_stream *s = find(r, command, which);

	return s ? s->fd.fd : -1;
}

static void take_data(struct relay *r, const char *data, size_t len)
{
	struct relay_stream *s = find(r, r->head.command, r->head.stream);

	if (!s)
		return;
	if (s->inward || s->last || len > s->credit) {
		fail(r, "bytes of a stream that has no room for them");
		return;
	}
	s->credit -= len;
	if (s->start > 0) {
		memmove(s->waiting.data, s->waiting.data + s->start, s->waiting.len - s->start);
		s->waiting.len -= s->start;
		s->start = 0;
	}
	if (buf_append(&s->waiting, data, len) < 0) {
		fail(r, "no memory for what it sends");
		return;
	}
	write_stream(s);
}

static void take_credit(struct relay *r)
{
	struct relay_stream *s = find(r, r->head.command, r->head.stream);
	uint64_t more;

	memcpy(&more, r->body, sizeof(more));
	if (!s)
		return;
	if (!s->inward || more > WIRE_WINDOW || s->credit + more > WIRE_WINDOW) {
		fail(r, "more room than there is");
		return;
	}
	s->credit += more;
	arm_all(r);
}

static void take_close(struct relay *r)
{
	struct relay_stream *s = find(r, r->head.command, r->head.stream);

	if (!s)
		return;
	if (s->inward) {
		stream_end(s, false);
		return;
	}
	s->last = true;
	write_stream(s);
}

/* How long each kind's body may be, and who says it. */
static const struct {
	uint32_t least, most;
	bool guest, keeper;
} kinds[WIRE_KINDS] = {
	[WIRE_SETUP] = {sizeof(struct wire_setup), WIRE_BODY_MAX, .keeper = true},
	[WIRE_ORDER] = {sizeof(struct wire_order), WIRE_BODY_MAX, .keeper = true},
	[WIRE_CLEAR] = {.keeper = true},
	[WIRE_INTERRUPT] = {.keeper = true},
	[WIRE_SIZE] = {sizeof(struct wire_size), sizeof(struct wire_size), .keeper = true},
	[WIRE_ASK_USE] = {.keeper = true},
	[WIRE_READY] = {0, sizeof(struct wire_facts), .guest = true},
	[WIRE_FAILED] = {sizeof(struct cay_error), sizeof(struct cay_error), .guest = true},
	[WIRE_EXITED] = {sizeof(struct wire_end), sizeof(struct wire_end), .guest = true},
	[WIRE_USE] = {sizeof(struct wire_use), sizeof(struct wire_use), .guest = true},
	[WIRE_DATA] = {1, WIRE_CHUNK, .guest = true, .keeper = true},
	[WIRE_CREDIT] = {sizeof(uint64_t), sizeof(uint64_t), .guest = true, .keeper = true},
	[WIRE_CLOSE] = {.guest = true, .keeper = true},
};

static bool head_ok(const struct relay *r)
{
	const struct wire_head *h = &r->head;

	return h->kind > 0 && h->kind < WIRE_KINDS && h->stream < WIRE_STREAMS &&
	       h->len >= kinds[h->kind].least && h->len <= kinds[h->kind].most &&
	       (r->from_guest ? kinds[h->kind].guest : kinds[h->kind].keeper);
}

static void obey(struct relay *r)
{
	switch (r->head.kind) {
	case WIRE_DATA:
		take_data(r, r->body, r->head.len);
		break;
	case WIRE_CREDIT:
		take_credit(r);
		break;
	case WIRE_CLOSE:
		take_close(r);
		break;
	default:
		r->events->said(r, &r->head, r->body);
	}
}

static size_t take_part(void *to, size_t at, size_t whole, const char *data, size_t len)
{
	size_t n = whole - at < len ? whole - at : len;

	memcpy((char *)to + at, data, n);
	return n;
}

static void take_wire(struct relay *r, const char *data, size_t len)
{
	while (!r->over && len > 0) {
		size_t n;

		if (r->have < sizeof(r->head)) {
			n = take_part(&r->head, r->have, sizeof(r->head), data, len);
			r->have += n;
			data += n;
			len -= n;
			if (r->have < sizeof(r->head))
				return;
			if (!head_ok(r)) {
				fail(r, "what is no frame of ours");
				return;
			}
		}
		n = take_part(r->body, r->have - sizeof(r->head), r->head.len, data, len);
		r->have += n;
		data += n;
		len -= n;
		if (r->have < sizeof(r->head) + r->head.len)
			return;
		r->have = 0;
		obey(r);
	}
}

static void keep_words(struct relay *r, const char *data, size_t len)
{
	size_t room = sizeof(r->words) - 1 - r->n_words;

	if (len > room)
		len = room;
	memcpy(r->words + r->n_words, data, len);
	r->n_words += len;
}

void relay_take(struct relay *r, const char *data, size_t len)
{
	enum frame_kind kind;
	const char *piece;
	size_t n;
	int e = 0;

	if (!r->framed) {
		take_wire(r, data, len);
		return;
	}
	while (!r->over && (e = frames_next(&r->frames, &data, &len, &kind, &piece, &n)) > 0)
		if (kind == FRAME_STDOUT)
			take_wire(r, piece, n);
		else
			keep_words(r, piece, n);
	if (e < 0)
		fail(r, "what is no frame of the engine's");
}

static void on_in(struct loop_fd *f, uint32_t events)
{
	struct relay *r = f->ctx;
	char chunk[READ_BYTES];
	ssize_t n;

	if (events & EPOLLOUT) {
		arm_out(r);
		if (!r->over)
			arm_all(r);
	}
	if (r->over || !(events & ~(uint32_t)EPOLLOUT))
		return;
	n = read(f->fd, chunk, sizeof(chunk));
	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n <= 0)
		fail(r, NULL);
	else
		relay_take(r, chunk, (size_t)n);
}

static void on_out(struct loop_fd *f, uint32_t events _unused_)
{
	struct relay *r = f->ctx;

	arm_out(r);
	if (!r->over)
		arm_all(r);
}

int relay_init(struct relay *r, struct loop *loop, int in_fd, int out_fd, bool keeper)
{
	const struct relay_events *events = r->events;
	void *ctx = r->ctx;
	int e;

	*r = (struct relay){
		.events = events,
		.ctx = ctx,
		.loop = loop,
		.in = {.fd = in_fd, .ready = on_in, .ctx = r},
		.out = {.fd = out_fd, .ready = on_out, .ctx = r},
		.framed = keeper,
		.from_guest = keeper,
		.sending = BUF(RELAY_OUT_MAX),
		.body = malloc(WIRE_BODY_MAX),
	};
	if (!r->body)
		return -ENOMEM;
	e = fd_set_nonblock(in_fd, 1);
	if (e == 0)
		e = fd_set_nonblock(out_fd, 1);
	return e < 0 ? e : loop_add(loop, &r->in, EPOLLIN);
}

void relay_done(struct relay *r)
{
	r->over = true;
	while (r->streams)
		stream_free(r->streams);
	if (r->loop) {
		loop_remove(r->loop, &r->in);
		loop_remove(r->loop, &r->out);
	}
	buf_done(&r->sending);
	free(r->body);
	r->body = NULL;
}
