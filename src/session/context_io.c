#include "session/context_impl.h"

#include "base/attr.h"
#include "base/fd.h"
#include "core/limits.h"
#include "engine/pipes.h"
#include "session/drain.h"
#include "session/job.h"

#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#define CHUNK       65536
#define PIPE_CHUNKS ((1 << 20) / CHUNK) /* the most that a pipe holds */
#define HELD_BYTES  65536

static void stream_close(struct context_stream *s)
{
	loop_remove(s->context->all->place->loop, &s->in);
	fd_closep(&s->in.fd);
}

static bool pass_on(struct context_stream *s, const char *data, size_t len)
{
	struct context *c = s->context;
	struct cell *cell = context_is_at_work(c) ? c->cells : NULL;

	if (cell && cell->prepared)
		return cell->events->output(cell, s->which, data, len);
	logs_add(c->all->logs, c->run, s->which, data, len);
	(void)capture_add(&s->held, data, len); /* what can't be held is in the logs */
	s->between += len;
	return s->between > FLOOD_BYTES; /* the pipe keeps what follows, and whoever prints waits */
}

/* One read; false at the end of what is there now. */
static bool take(struct context_stream *s)
{
	static char chunk[CHUNK];
	ssize_t n = read(s->in.fd, chunk, sizeof(chunk));

	if (n < 0 && errno == EINTR)
		return true;
	if (n < 0 && errno == EAGAIN)
		return false;
	if (n <= 0) {
		stream_close(s); /* a cell may have closed it: the context lives on */
		return false;
	}
	if (pass_on(s, chunk, (size_t)n))
		s->paused = true;
	return true;
}

static void on_output(struct loop_fd *f, uint32_t events _unused_)
{
	struct context_stream *s = f->ctx;

	(void)take(s);
	if (s->paused)
		loop_remove(s->context->all->place->loop, f);
}

static void resume(struct context_stream *s)
{
	if (s->paused && s->in.fd >= 0)
		(void)loop_add(s->context->all->place->loop, &s->in, EPOLLIN);
	s->paused = false;
}

void cell_resume(struct cell *cell, enum stream which)
{
	if (cell->context && cell->context->cells == cell)
		resume(&cell->context->streams[which]);
}

void context_io_take(struct context *c, bool close)
{
	for (int n = 0; n < STREAMS; n++) {
		struct context_stream *s = &c->streams[n];

		for (int k = 0; k < PIPE_CHUNKS && s->in.fd >= 0 && take(s); k++)
			;
		if (s->in.fd >= 0 && close) {
			loop_remove(c->all->place->loop, &s->in);
			drain(c->all->place->drains, take_fd(&s->in.fd));
		} else if (s->in.fd >= 0 && s->paused) {
			loop_remove(c->all->place->loop, &s->in);
			(void)loop_add(c->all->place->loop, &s->in, EPOLLIN);
		}
		s->paused = false;
	}
}

/* From here on, what is printed between cells. */
static void hold(struct context_stream *s)
{
	capture_done(&s->held);
	capture_init(&s->held, HELD_BYTES);
	s->between = 0;
}

void context_io_begin(struct context *c)
{
	for (int n = 0; n < STREAMS; n++) {
		_cleanup_(buf_done) struct buf text = BUF(2 * HELD_BYTES);
		struct context_stream *s = &c->streams[n];

		if (capture_text(&s->held, &text) == 0 && text.len > 0)
			(void)c->cells->events->output(c->cells, s->which, text.data, text.len);
		hold(s);
		resume(s);
	}
}

int context_io_open(struct context *c, int ret_theirs[3], struct cay_error *err)
{
	_cleanup_(pipes_done) struct pipes pipes = PIPES_NONE;
	int r = 0;

	if (pipes_open(&pipes, 0, err) < 0)
		return -1;
	for (int n = 0; n < STREAMS && r == 0; n++) {
		struct context_stream *s = &c->streams[n];

		s->in = (struct loop_fd){
			.fd = take_fd(&pipes.ours[1 + n]), .ready = on_output, .ctx = s};
		s->paused = false;
		hold(s);
		r = loop_add(c->all->place->loop, &s->in, EPOLLIN);
	}
	if (r < 0)
		return cay_fail(err, CAY_E_INTERNAL, -r, "watch the interpreter's pipes");
	if (channel_open(&c->channel, c->all->place->loop, c->channel.plain, &ret_theirs[0], err) <
	    0)
		return -1;
	for (int n = 1; n < 3; n++)
		ret_theirs[n] = take_fd(&pipes.theirs[n]);
	return 0;
}
