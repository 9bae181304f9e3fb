#include "egress/relay.h"

#include "base/attr.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

/* Of one direction, before others have their turn. */
#define TURN_BYTES (512u << 10)

/* What a step came to. */
enum step {
	STEP_ON,   /* there may be more to do */
	STEP_WAIT, /* for one of the sockets */
	STEP_RESET,
	STEP_DENIED,
	STEP_FAILED,
};

static enum step step_of_errno(void)
{
	if (errno == EAGAIN || errno == EINTR)
		return STEP_WAIT;
	return errno == ENOMEM || errno == ENOBUFS ? STEP_FAILED : STEP_RESET;
}

static bool is_empty(const struct relay_flow *f)
{
	return f->in_pipe == 0 && f->at == f->cleared;
}

static void give_pipe(struct relay *r, struct relay_flow *f)
{
	if (f->pipe)
		pipes_give(r->pipes, f->pipe, f->in_pipe == 0);
	f->pipe = NULL;
}

/* Bytes in the pipe, to the other side. */
static enum step drain_pipe(struct relay *r, enum relay_side from)
{
	struct relay_flow *f = &r->flow[from];
	ssize_t n = splice(f->pipe->read, NULL, r->side[!from].fd, NULL, f->in_pipe,
			   SPLICE_F_MOVE | SPLICE_F_NONBLOCK);

	if (n < 0)
		return step_of_errno();
	f->in_pipe -= size_min((size_t)n, f->in_pipe);
	return f->in_pipe > 0 && n == 0 ? STEP_RESET : STEP_ON;
}

/* Bytes that were shown and are cleared, to the other side. */
static enum step drain_held(struct relay *r, enum relay_side from)
{
	struct relay_flow *f = &r->flow[from];
	ssize_t n = send(r->side[!from].fd, f->held + f->at, f->cleared - f->at, MSG_NOSIGNAL);

	if (n < 0)
		return step_of_errno();
	f->at += (size_t)n;
	if (f->at == f->len)
		f->at = f->cleared = f->len = 0;
	return STEP_ON;
}

static enum step show(struct relay *r, enum relay_side from, size_t from_byte)
{
	struct relay_flow *f = &r->flow[from];
	size_t held = 0;

	switch (r->calls->show(r->ctx, f->held + from_byte, f->len - from_byte, &held)) {
	case RELAY_MORE:
		f->cleared = f->len - held;
		return held < RELAY_HELD_MAX ? STEP_ON : STEP_DENIED;
	case RELAY_DONE:
		f->cleared = f->len;
		f->show = false;
		return STEP_ON;
	case RELAY_IGNORE:
		f->cleared = f->len = f->len - held;
		f->ignore = true;
		return STEP_ON;
	case RELAY_END:
		break;
	}
	return STEP_DENIED;
}

/* What is held back by now goes nowhere. */
static void read_end(struct relay_flow *f)
{
	f->ended = true;
	f->len = f->cleared;
}

static int make_held(struct relay_flow *f, size_t size)
{
	f->held = malloc(size);
	f->size = size;
	return f->held ? 0 : -ENOMEM;
}

/* Room behind what is held back, when all in front of it is gone. */
static void make_room(struct relay_flow *f)
{
	memmove(f->held, f->held + f->at, f->len - f->at);
	f->len -= f->at;
	f->at = f->cleared = 0;
}

static enum step fill_held(struct relay *r, enum relay_side from, size_t room, size_t *ret_n)
{
	struct relay_flow *f = &r->flow[from];
	size_t before;
	ssize_t n;

	if (!f->held && make_held(f, RELAY_HELD_MAX) < 0)
		return STEP_FAILED;
	make_room(f);
	before = f->len;
	n = recv(r->side[from].fd, f->held + before, size_min(room, f->size - before), 0);
	if (n < 0)
		return step_of_errno();
	*ret_n = (size_t)n;
	if (n == 0) {
		enum step step = f->len > 0 ? show(r, from, f->len) : STEP_ON;

		read_end(f);
		return step;
	}
	if (f->ignore)
		return STEP_ON;
	f->len += (size_t)n;
	return show(r, from, before);
}

static enum step fill_pipe(struct relay *r, enum relay_side from, size_t room, size_t *ret_n)
{
	struct relay_flow *f = &r->flow[from];
	ssize_t n;

	if (!f->pipe)
		f->pipe = pipes_take(r->pipes);
	if (!f->pipe)
		return STEP_FAILED;
	n = splice(r->side[from].fd, NULL, f->pipe->write, NULL, size_min(room, PIPE_BYTES),
		   SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
	if (n < 0)
		return step_of_errno();
	*ret_n = (size_t)n;
	f->in_pipe = (size_t)n;
	if (n == 0)
		read_end(f);
	return STEP_ON;
}

static enum step fill(struct relay *r, enum relay_side from, size_t *budget)
{
	struct relay_flow *f = &r->flow[from];
	size_t room = size_min(r->calls->room(r->ctx, from), *budget), n = 0;
	enum step step;

	f->paused = room == 0;
	if (f->paused)
		return STEP_WAIT;
	step = f->show ? fill_held(r, from, room, &n) : fill_pipe(r, from, room, &n);
	*budget -= size_min(n, *budget);
	if (n > 0)
		r->calls->moved(r->ctx, from, n);
	return step;
}

static enum step move_once(struct relay *r, enum relay_side from, size_t *budget)
{
	struct relay_flow *f = &r->flow[from];

	if (f->in_pipe > 0)
		return drain_pipe(r, from);
	if (f->at < f->cleared)
		return drain_held(r, from);
	if (!f->ended)
		return *budget > 0 ? fill(r, from, budget) : STEP_WAIT;
	if (!f->passed && shutdown(r->side[!from].fd, SHUT_WR) < 0)
		return STEP_RESET;
	if (!f->passed)
		r->calls->half(r->ctx, from);
	f->passed = true;
	return STEP_WAIT;
}

static enum step move(struct relay *r, enum relay_side from)
{
	struct relay_flow *f = &r->flow[from];
	size_t budget = TURN_BYTES;
	enum step step;

	do
		step = move_once(r, from, &budget);
	while (step == STEP_ON);
	if (f->in_pipe == 0)
		give_pipe(r, f);
	if (!f->show && f->at == f->len) {
		free(f->held);
		f->held = NULL;
	}
	return step;
}

/* What is waited for at one side: bytes from it, or room for those of the other. */
static int watch(struct relay *r, enum relay_side s)
{
	const struct relay_flow *from = &r->flow[s], *to = &r->flow[!s];
	struct loop_fd *f = &r->side[s];
	uint32_t events = 0;

	if (!from->ended && !from->paused && is_empty(from))
		events |= EPOLLIN;
	if (!is_empty(to))
		events |= EPOLLOUT;
	/* Where both ends have ended, the kernel never stops to say so. */
	if (events == 0 && to->passed) {
		loop_remove(r->loop, f);
		return 0;
	}
	return f->added ? loop_change(r->loop, f, events) : loop_add(r->loop, f, events);
}

static void finish(struct relay *r, enum relay_end how)
{
	relay_stop(r);
	r->calls->ended(r->ctx, how);
}

static bool go_on(struct relay *r, enum step step)
{
	enum relay_end how = RELAY_FINISHED;

	if (step == STEP_RESET)
		how = RELAY_RESET;
	else if (step == STEP_DENIED)
		how = RELAY_DENIED;
	else if (step == STEP_FAILED)
		how = RELAY_FAILED;
	else if (!r->flow[RELAY_ISLAND].passed || !r->flow[RELAY_UPSTREAM].passed)
		return true;
	finish(r, how);
	return false;
}

static void pump(struct relay *r, enum relay_side from)
{
	if (!go_on(r, move(r, from)))
		return;
	if (watch(r, RELAY_ISLAND) < 0 || watch(r, RELAY_UPSTREAM) < 0)
		finish(r, RELAY_FAILED);
}

static void on_ready(struct loop_fd *f, uint32_t events)
{
	struct relay *r = f->ctx;
	enum relay_side s = f == &r->side[RELAY_ISLAND] ? RELAY_ISLAND : RELAY_UPSTREAM;
	enum step step = STEP_WAIT;

	if (events & EPOLLERR) {
		finish(r, RELAY_RESET);
		return;
	}
	if (events & (EPOLLIN | EPOLLHUP) && !r->flow[s].ended)
		step = move(r, s);
	if (!go_on(r, step))
		return;
	if (events & EPOLLOUT && !go_on(r, move(r, !s)))
		return;
	if (watch(r, RELAY_ISLAND) < 0 || watch(r, RELAY_UPSTREAM) < 0)
		finish(r, RELAY_FAILED);
}

int relay_start(struct relay *r, int island, int upstream)
{
	int e;

	memset(r->flow, 0, sizeof(r->flow));
	r->side[RELAY_ISLAND] = (struct loop_fd){.fd = island, .ready = on_ready, .ctx = r};
	r->side[RELAY_UPSTREAM] = (struct loop_fd){.fd = upstream, .ready = on_ready, .ctx = r};
	r->flow[RELAY_ISLAND].show = r->calls->show;
	e = watch(r, RELAY_ISLAND);
	if (e == 0)
		e = watch(r, RELAY_UPSTREAM);
	if (e < 0)
		relay_stop(r);
	return e;
}

void relay_begin_with(struct relay *r, const char *data, size_t len, size_t unseen)
{
	struct relay_flow *f = &r->flow[RELAY_ISLAND];
	enum step step = STEP_ON;

	if (len == 0)
		return;
	if (make_held(f, size_max(len, RELAY_HELD_MAX)) < 0) {
		finish(r, RELAY_FAILED);
		return;
	}
	memcpy(f->held, data, len);
	f->len = len;
	f->cleared = f->show ? len - unseen : len;
	if (f->cleared < len)
		step = show(r, RELAY_ISLAND, f->cleared);
	if (go_on(r, step))
		pump(r, RELAY_ISLAND);
}

void relay_resume(struct relay *r, enum relay_side from)
{
	r->flow[from].paused = false;
	pump(r, from);
}

void relay_stop(struct relay *r)
{
	for (int s = 0; s < 2; s++) {
		loop_remove(r->loop, &r->side[s]);
		give_pipe(r, &r->flow[s]);
		free(r->flow[s].held);
		r->flow[s].held = NULL;
	}
}
