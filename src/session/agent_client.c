#include "session/agent_client.h"

#include "base/attr.h"
#include "base/fd.h"
#include "base/loop.h"
#include "base/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

/* What is read before others get their turn. */
#define ROUNDS 4

/* Any record but RECORD_DATA, which is passed on as it comes. */
#define HELD_MAX (sizeof(struct agent_entry) + 2 * AGENT_PATH_MAX)
_Static_assert(HELD_MAX >= sizeof(struct cay_error), "an error is held, too");

/* A request, or one record; behind it RECORD_END. */
#define TX_MAX (sizeof(struct agent_request) + AGENT_PATH_MAX + AGENT_ARG_MAX)

struct agent_call {
	struct loop *loop;
	struct loop_fd to, from;
	struct loop_timer idle, again;
	const struct agent_sink *sink;
	void *ctx;
	enum agent_op op;
	unsigned flags;
	uint64_t idle_ms;
	bool has_body, ended; /* of the request */
	bool wants_room, paused, done, freed;
	unsigned busy; /* callbacks that are under way */

	/* What must hold of what comes. */
	uint64_t entries_left, bytes_left; /* of all */
	uint64_t file_left;                /* of the last entry */
	char *path;                        /* that was asked for */

	size_t rx_at, rx_len, held, tx_at, tx_len;
	struct agent_record record; /* that is coming: */
	size_t record_got;          /* bytes of its head */
	size_t record_left;         /* bytes of its body */
	char held_bytes[HELD_MAX];
	char rx[AGENT_CHUNK];
	char tx[TX_MAX + sizeof(struct agent_record)];
};

static void finish(struct agent_call *c, const struct agent_end *end, const struct cay_error *err);

/*
 * Life
 */

static void close_all(struct agent_call *c)
{
	loop_remove(c->loop, &c->to);
	loop_remove(c->loop, &c->from);
	loop_cancel(c->loop, &c->idle);
	loop_cancel(c->loop, &c->again);
	fd_closep(&c->to.fd);
	fd_closep(&c->from.fd);
}

static void leave(struct agent_call *c)
{
	if (--c->busy == 0 && c->freed) {
		free(c->path);
		free(c);
	}
}

void agent_call_free(struct agent_call *c)
{
	if (!c)
		return;
	c->done = c->freed = true;
	close_all(c);
	c->busy++;
	leave(c);
}

static void finish(struct agent_call *c, const struct agent_end *end, const struct cay_error *err)
{
	if (c->done)
		return;
	c->done = true;
	close_all(c);
	c->sink->done(c->ctx, end, err);
}

static void broken(struct agent_call *c, const char *how)
{
	struct cay_error err;

	(void)cay_fail(&err, CAY_E_INTERNAL, 0, "the sandbox's files agent %s", how);
	finish(c, NULL, &err);
}

/* The agent is waited for unless it waits for us. */
static void watch_idle(struct agent_call *c)
{
	bool ours = c->paused || (c->has_body && !c->ended && c->to.fd >= 0 && c->tx_len == 0);

	if (c->done || c->idle_ms == 0)
		return;
	if (ours)
		loop_cancel(c->loop, &c->idle);
	else if (loop_after(c->loop, &c->idle, c->idle_ms) < 0)
		broken(c, "can't be timed: out of memory");
}

static void on_idle(struct loop_timer *t)
{
	struct agent_call *c = t->ctx;

	c->busy++;
	broken(c, "does not answer");
	leave(c);
}

/*
 * What comes
 */

static bool part_ok(const char *part, size_t len)
{
	return len > 0 && !(len == 1 && part[0] == '.') &&
	       !(len == 2 && part[0] == '.' && part[1] == '.');
}

/* Relative, and nothing in it but names. */
static bool path_ok(const char *path)
{
	for (;;) {
		size_t len = strcspn(path, "/");

		if (!part_ok(path, len))
			return false;
		if (path[len] == '\0')
			return true;
		path += len + 1;
	}
}

static bool has_paths(const struct agent_call *c)
{
	return c->op == AGENT_LIST || c->op == AGENT_TREE_OUT || c->op == AGENT_DIFF;
}

/* Two texts that follow a head, as strings; false where lengths or bytes are not what they must be.
 */
static bool cut_texts(const char *bytes, size_t len, uint64_t one_len, uint64_t two_len,
		      char one[AGENT_PATH_MAX + 1], char two[AGENT_PATH_MAX + 1])
{
	if (one_len > AGENT_PATH_MAX || two_len > AGENT_PATH_MAX || one_len + two_len != len ||
	    memchr(bytes, '\0', len))
		return false;
	memcpy(one, bytes, one_len);
	one[one_len] = '\0';
	memcpy(two, bytes + one_len, two_len);
	two[two_len] = '\0';
	return true;
}

static bool entry_ok(const struct agent_call *c, const struct agent_entry *e, const char *path)
{
	bool listed = has_paths(c);

	if (e->type == 0 || e->type >= AGENT_TYPES || e->type == AGENT_HARD_LINK ||
	    e->mode > 07777 || e->size > INT64_MAX || c->entries_left == 0)
		return false;
	if (e->link_len > 0 && e->type != AGENT_LINK)
		return false;
	if (c->op == AGENT_READ && e->type != AGENT_FILE)
		return false;
	if (c->op == AGENT_TREE_OUT && e->type > AGENT_LINK)
		return false;
	if ((c->op == AGENT_DIFF) != (e->change != 0) || e->change > AGENT_DELETED)
		return false;
	if (c->flags & AGENT_GET && strncmp(path, "/tmp/", 5) == 0)
		path += 5;
	return listed ? path_ok(path) : path[0] == '\0';
}

static void got_entry(struct agent_call *c)
{
	char path[AGENT_PATH_MAX + 1], target[AGENT_PATH_MAX + 1];
	struct agent_file file;
	struct agent_entry e;

	if (c->held < sizeof(e)) {
		broken(c, "sent half an entry");
		return;
	}
	memcpy(&e, c->held_bytes, sizeof(e));
	if (!cut_texts(c->held_bytes + sizeof(e), c->held - sizeof(e), e.path_len, e.link_len, path,
		       target) ||
	    !entry_ok(c, &e, path)) {
		broken(c, "sent an entry that can't be");
		return;
	}
	c->entries_left--;
	c->file_left = e.type == AGENT_FILE ? e.size : 0;
	if (c->op == AGENT_READ && e.size == 0)
		c->file_left = AGENT_SIZELESS_MAX;
	if (c->op != AGENT_READ && c->op != AGENT_TREE_OUT)
		c->file_left = 0;
	file = (struct agent_file){.type = e.type,
				   .mode = e.mode,
				   .path = has_paths(c) ? path : c->path,
				   .target = target,
				   .size = e.size,
				   .mtime_ns = e.mtime_ns,
				   .glob = e.glob,
				   .change = e.change};
	if (c->sink->entry)
		c->sink->entry(c->ctx, &file);
}

static void got_event(struct agent_call *c)
{
	char path[AGENT_PATH_MAX + 1], to[AGENT_PATH_MAX + 1];
	struct agent_event e;
	struct agent_news news;

	if (c->op != AGENT_WATCH || c->held < sizeof(e)) {
		broken(c, "sent an event that can't be");
		return;
	}
	memcpy(&e, c->held_bytes, sizeof(e));
	if (e.change == 0 || e.change >= AGENT_CHANGES ||
	    !cut_texts(c->held_bytes + sizeof(e), c->held - sizeof(e), e.path_len, e.to_len, path,
		       to) ||
	    (path[0] && !path_ok(path)) || (to[0] && !path_ok(to)) ||
	    (e.change == AGENT_MOVED) != (to[0] != '\0')) {
		broken(c, "sent an event that can't be");
		return;
	}
	news = (struct agent_news){
		.change = e.change, .is_dir = e.is_dir != 0, .path = path, .to = to};
	if (c->sink->news)
		c->sink->news(c->ctx, &news);
}

static void got_end(struct agent_call *c)
{
	struct agent_end end;

	if (c->held != sizeof(end) || (c->has_body && !c->ended)) {
		broken(c, "ended too early");
		return;
	}
	memcpy(&end, c->held_bytes, sizeof(end));
	finish(c, &end, NULL);
}

/* Only what an agent can have met: it is not the one to say that a key is wrong. */
static enum cay_code mend_code(enum cay_code code)
{
	switch ((int)code) {
	case CAY_E_INVALID:
	case CAY_E_POLICY:
	case CAY_E_NOT_FOUND:
	case CAY_E_CONFLICT:
	case CAY_E_TOO_LARGE:
	case CAY_E_UNSUPPORTED:
		return code;
	default:
		return CAY_E_INTERNAL;
	}
}

static void got_error(struct agent_call *c)
{
	struct cay_error err;

	if (c->held != sizeof(err)) {
		broken(c, "sent half an error");
		return;
	}
	memcpy(&err, c->held_bytes, sizeof(err));
	cay_error_mend(&err);
	err.code = mend_code(err.code);
	err.exit_code = 125;
	text_flatten(err.text, strlen(err.text));
	text_flatten(err.hint, strlen(err.hint));
	finish(c, NULL, &err);
}

static void got_record(struct agent_call *c)
{
	switch ((enum agent_record_kind)c->record.kind) {
	case RECORD_ENTRY:
		got_entry(c);
		break;
	case RECORD_EVENT:
		got_event(c);
		break;
	case RECORD_END:
		got_end(c);
		break;
	case RECORD_ERROR:
		got_error(c);
		break;
	case RECORD_DATA:
	case RECORD_KINDS:
	default:
		broken(c, "sent what nobody asked for");
		break;
	}
}

static void got_head(struct agent_call *c)
{
	const struct agent_record *r = &c->record;
	bool data = r->kind == RECORD_DATA;

	c->held = 0;
	c->record_left = r->len;
	if (r->kind == 0 || r->kind >= RECORD_KINDS || r->len > (data ? AGENT_CHUNK : HELD_MAX))
		broken(c, "sent no record");
	else if (data && (r->len > c->file_left || r->len > c->bytes_left))
		broken(c, "sent more bytes than it may");
	else if (!data && r->len == 0)
		got_record(c);
	if (data) {
		c->file_left -= r->len;
		c->bytes_left -= r->len;
	}
}

/* Takes what it can of the bytes that are there; how many. */
static size_t take(struct agent_call *c, const char *bytes, size_t len)
{
	size_t n;

	if (c->record_got < sizeof(c->record)) {
		n = size_min(len, sizeof(c->record) - c->record_got);
		memcpy((char *)&c->record + c->record_got, bytes, n);
		c->record_got += n;
		if (c->record_got == sizeof(c->record))
			got_head(c);
	} else {
		n = size_min(len, c->record_left);
		c->record_left -= n;
		if (c->record.kind == RECORD_DATA) {
			if (c->sink->data)
				c->sink->data(c->ctx, bytes, n);
		} else {
			memcpy(c->held_bytes + c->held, bytes, n);
			c->held += n;
			if (c->record_left == 0)
				got_record(c);
		}
	}
	if (c->record_got == sizeof(c->record) && c->record_left == 0)
		c->record_got = 0;
	return n;
}

static void digest(struct agent_call *c)
{
	while (!c->done && !c->paused && c->rx_at < c->rx_len)
		c->rx_at += take(c, c->rx + c->rx_at, c->rx_len - c->rx_at);
}

static void receive(struct agent_call *c)
{
	for (int n = 0; n < ROUNDS && !c->done && !c->paused; n++) {
		ssize_t got;

		if (c->rx_at < c->rx_len) {
			digest(c);
			continue;
		}
		got = read(c->from.fd, c->rx, sizeof(c->rx));
		if (got < 0 && (errno == EAGAIN || errno == EINTR))
			break;
		if (got <= 0) {
			broken(c, "ended without an answer");
			break;
		}
		c->rx_at = 0;
		c->rx_len = (size_t)got;
		digest(c);
	}
	watch_idle(c);
}

static void on_from(struct loop_fd *f, uint32_t events _unused_)
{
	struct agent_call *c = f->ctx;

	c->busy++;
	receive(c);
	leave(c);
}

static void on_again(struct loop_timer *t)
{
	struct agent_call *c = t->ctx;

	c->busy++;
	digest(c);
	watch_idle(c);
	leave(c);
}

void agent_call_pause(struct agent_call *c, bool paused)
{
	if (c->done || c->paused == paused)
		return;
	c->paused = paused;
	c->busy++;
	/* Not from in here: the caller may be in the middle of its own. */
	if (!paused && c->rx_at < c->rx_len && loop_after(c->loop, &c->again, 0) < 0)
		broken(c, "can't be read: out of memory");
	/* Taken out of the loop: an agent that has ended would be told again and again. */
	if (paused)
		loop_remove(c->loop, &c->from);
	else if (!c->done && loop_add(c->loop, &c->from, EPOLLIN) < 0)
		broken(c, "can't be read");
	watch_idle(c);
	leave(c);
}

/*
 * What goes
 */

/* The agent has gone, or has answered before it had all: what it said is still to be read. */
static void stop_sending(struct agent_call *c)
{
	loop_remove(c->loop, &c->to);
	fd_closep(&c->to.fd);
	c->tx_at = c->tx_len = 0;
}

static void flush(struct agent_call *c)
{
	while (c->to.fd >= 0 && c->tx_at < c->tx_len) {
		ssize_t n = write(c->to.fd, c->tx + c->tx_at, c->tx_len - c->tx_at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			break;
		if (n < 0) {
			stop_sending(c);
			return;
		}
		c->tx_at += (size_t)n;
	}
	if (c->tx_at == c->tx_len)
		c->tx_at = c->tx_len = 0;
	if (c->to.fd >= 0 && loop_change(c->loop, &c->to, c->tx_len > 0 ? EPOLLOUT : 0) < 0)
		broken(c, "can't be written to");
}

static void on_to(struct loop_fd *f, uint32_t events)
{
	struct agent_call *c = f->ctx;

	c->busy++;
	if (events & EPOLLERR)
		stop_sending(c);
	else
		flush(c);
	if (!c->done && c->tx_len == 0 && c->wants_room) {
		c->wants_room = false;
		if (c->sink->room)
			c->sink->room(c->ctx);
	}
	watch_idle(c);
	leave(c);
}

static void put(struct agent_call *c, const void *data, size_t len)
{
	if (len > 0)
		memcpy(c->tx + c->tx_len, data, len);
	c->tx_len += len;
}

static void put_record(struct agent_call *c, enum agent_record_kind kind, const void *data,
		       size_t len)
{
	struct agent_record r = {.kind = kind, .len = (uint32_t)len};

	put(c, &r, sizeof(r));
	put(c, data, len);
}

static void push(struct agent_call *c)
{
	c->busy++;
	flush(c);
	watch_idle(c);
	leave(c);
}

size_t agent_call_send(struct agent_call *c, const void *data, size_t len)
{
	size_t sent = 0;

	c->busy++;
	while (sent < len && !c->done && c->to.fd >= 0) {
		size_t n = size_min(len - sent, AGENT_CHUNK);

		if (c->tx_len > 0) {
			c->wants_room = true;
			break;
		}
		put_record(c, RECORD_DATA, (const char *)data + sent, n);
		sent += n;
		flush(c);
		watch_idle(c);
	}
	if (c->done || c->to.fd < 0)
		sent = len;
	leave(c);
	return sent;
}

int agent_call_entry(struct agent_call *c, const struct agent_file *f)
{
	struct agent_entry e = {.type = f->type,
				.mode = f->mode & 07777,
				.path_len = (uint32_t)strlen(f->path),
				.link_len = f->target ? (uint32_t)strlen(f->target) : 0,
				.size = f->size,
				.mtime_ns = f->mtime_ns};
	size_t len;

	if (c->done || c->to.fd < 0)
		return 0;
	if (strlen(f->path) > AGENT_PATH_MAX || !path_ok(f->path) ||
	    (f->target && strlen(f->target) > AGENT_PATH_MAX))
		return -EINVAL;
	len = sizeof(e) + e.path_len + e.link_len;
	if (c->tx_len > 0) {
		c->wants_room = true;
		return -EAGAIN;
	}
	put(c, &(struct agent_record){.kind = RECORD_ENTRY, .len = (uint32_t)len},
	    sizeof(struct agent_record));
	put(c, &e, sizeof(e));
	put(c, f->path, e.path_len);
	put(c, f->target, e.link_len);
	push(c);
	return 0;
}

void agent_call_end(struct agent_call *c)
{
	if (c->done || c->to.fd < 0 || c->ended)
		return;
	put_record(c, RECORD_END, NULL, 0);
	c->ended = true;
	push(c);
}

/*
 * The beginning
 */

static int put_request(struct agent_call *c, const struct agent_ask *ask, struct cay_error *err)
{
	size_t path_len = ask->path ? strlen(ask->path) : 0;
	size_t arg_len = ask->arg ? ask->arg_len ? ask->arg_len : strlen(ask->arg) : 0;
	struct agent_request r = {.op = ask->op,
				  .flags = ask->flags,
				  .mode = ask->mode,
				  .depth = ask->depth,
				  .count = ask->count,
				  .path_len = (uint32_t)path_len,
				  .arg_len = (uint32_t)arg_len,
				  .offset = ask->offset,
				  .length = ask->length};

	if (path_len == 0)
		return cay_fail(err, CAY_E_INVALID, 0, "the path is empty");
	if (path_len > AGENT_PATH_MAX || arg_len > AGENT_ARG_MAX)
		return cay_fail(err, CAY_E_INVALID, 0, "a path may have %u bytes at most",
				AGENT_PATH_MAX);
	put(c, &r, sizeof(r));
	put(c, ask->path, path_len);
	put(c, ask->arg, arg_len);
	c->path = strdup(ask->path);
	return c->path ? 0 : cay_fail(err, CAY_E_INTERNAL, ENOMEM, "ask the files agent");
}

static void set_bounds(struct agent_call *c, const struct agent_ask *ask)
{
	bool streams = ask->op == AGENT_READ || ask->op == AGENT_TREE_OUT;

	c->entries_left = ask->op == AGENT_LIST || ask->op == AGENT_DIFF        ? ask->count
			  : ask->op == AGENT_TREE_OUT                           ? AGENT_TREE_MAX
			  : ask->op == AGENT_REMOVE || ask->op == AGENT_TREE_IN ? 0
										: 1;
	c->bytes_left = streams ? ask->length : 0;
	c->has_body = ask->op == AGENT_WRITE || ask->op == AGENT_TREE_IN;
}

static int start(struct agent_call *c)
{
	int r = fd_set_nonblock(c->to.fd, 1);

	if (r == 0)
		r = fd_set_nonblock(c->from.fd, 1);
	if (r == 0)
		r = loop_add(c->loop, &c->to, EPOLLOUT);
	if (r == 0)
		r = loop_add(c->loop, &c->from, EPOLLIN);
	return r;
}

struct agent_call *agent_call_new(struct loop *loop, int to_fd, int from_fd,
				  const struct agent_ask *ask, const struct agent_sink *sink,
				  void *ctx, struct cay_error *err)
{
	struct agent_call *c = calloc(1, sizeof(*c));
	int r;

	if (!c) {
		fd_closep(&to_fd);
		fd_closep(&from_fd);
		(void)cay_fail(err, CAY_E_INTERNAL, ENOMEM, "ask the files agent");
		return NULL;
	}
	c->loop = loop;
	c->sink = sink;
	c->ctx = ctx;
	c->op = ask->op;
	c->flags = ask->flags;
	c->idle_ms = ask->op == AGENT_WATCH ? 0 : ask->idle_ms;
	c->to = (struct loop_fd){.fd = to_fd, .ready = on_to, .ctx = c};
	c->from = (struct loop_fd){.fd = from_fd, .ready = on_from, .ctx = c};
	c->idle = (struct loop_timer){.fire = on_idle, .ctx = c};
	c->again = (struct loop_timer){.fire = on_again, .ctx = c};
	set_bounds(c, ask);
	r = put_request(c, ask, err);
	if (r == 0) {
		r = start(c);
		if (r < 0)
			(void)cay_fail(err, CAY_E_INTERNAL, -r, "ask the files agent");
	}
	if (r < 0) {
		agent_call_free(c);
		return NULL;
	}
	watch_idle(c);
	return c;
}
