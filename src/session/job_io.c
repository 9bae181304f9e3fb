#include "session/job_impl.h"

#include "base/attr.h"
#include "base/fd.h"

#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#define CHUNK       65536
#define PIPE_CHUNKS ((1 << 20) / CHUNK) /* the most that a pipe holds */

static void stream_close(struct job_stream *s)
{
	loop_remove(s->job->place.loop, &s->in);
	fd_closep(&s->in.fd);
}

static void input_close(struct job *j)
{
	loop_remove(j->place.loop, &j->input);
	fd_closep(&j->input.fd);
}

bool job_io_ended(const struct job *j)
{
	return j->streams[STREAM_STDOUT].in.fd < 0 && j->streams[STREAM_STDERR].in.fd < 0;
}

void job_io_close(struct job *j)
{
	input_close(j);
	channel_close(&j->channel);
	for (int n = 0; n < STREAMS; n++)
		stream_close(&j->streams[n]);
}

static void keep(struct job *j, enum stream s, const char *data, size_t len)
{
	struct result *r = &j->result;
	struct capture *c = j->step == STEP_COMPILE ? &r->compile.output : &r->output[s];

	if (capture_add(c, data, len) < 0) {
		j->watched.error = ENOMEM;
		job_cancel(j, CAUSE_ERROR, 0);
	}
	if (c->dropped > FLOOD_BYTES && !j->order.streamed)
		job_cancel(j, CAUSE_OUTPUT, 0);
}

bool job_take_output(struct job *j, enum stream s, const char *data, size_t len)
{
	keep(j, s, data, len);
	if (j->tap)
		j->tap(j->tap_ctx, j, s, data, len);
	return j->events->output && j->step != STEP_COMPILE && j->events->output(j, s, data, len);
}

/* One read; false at the end of what is there now. */
static bool take(struct job_stream *s)
{
	static char chunk[CHUNK];
	struct job *j = s->job;
	ssize_t n = read(s->in.fd, chunk, sizeof(chunk));

	if (n < 0 && errno == EINTR)
		return true;
	if (n < 0 && errno == EAGAIN)
		return false;
	if (n <= 0) {
		stream_close(s);
		return false;
	}
	if (job_take_output(j, s->which, chunk, (size_t)n))
		s->paused = true;
	return true;
}

static void on_output(struct loop_fd *f, uint32_t events _unused_)
{
	struct job_stream *s = f->ctx;
	struct job *j = s->job;

	(void)take(s);
	if (s->paused)
		loop_remove(j->place.loop, f);
	if (f->fd < 0)
		job_go_on(j);
}

void job_resume(struct job *j, enum stream which)
{
	struct job_stream *s = &j->streams[which];

	cell_resume(&j->cell, which);
	if (s->paused && s->in.fd >= 0)
		(void)loop_add(j->place.loop, &s->in, EPOLLIN);
	s->paused = false;
}

void job_io_hold(struct job *j)
{
	for (int n = 0; n < STREAMS; n++) {
		loop_remove(j->place.loop, &j->streams[n].in);
		j->streams[n].paused = true;
	}
}

void job_io_go_on(struct job *j)
{
	for (int n = 0; n < STREAMS; n++)
		job_resume(j, (enum stream)n);
}

void job_io_leave(struct job *j)
{
	for (int n = 0; n < STREAMS; n++) {
		struct job_stream *s = &j->streams[n];

		/* What was printed before the end, and no more: others may print without one. */
		for (int k = 0; k < PIPE_CHUNKS && s->in.fd >= 0 && take(s); k++)
			;
		loop_remove(j->place.loop, &s->in);
		if (s->in.fd >= 0)
			drain(j->place.drains, take_fd(&s->in.fd));
	}
	input_close(j);
}

static void on_input(struct loop_fd *f, uint32_t events _unused_)
{
	struct job *j = f->ctx;
	const struct request_body *b = j->order.body;
	ssize_t n = write(f->fd, b->stdin_data + j->input_done, b->stdin_len - j->input_done);

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n > 0)
		j->input_done += (size_t)n;
	if (n < 0 || j->input_done == b->stdin_len)
		input_close(j);
}

static int watch(struct job *j, struct pipes *p)
{
	struct loop *l = j->place.loop;
	int r = 0;

	for (int n = 0; n < STREAMS && r == 0; n++) {
		struct job_stream *s = &j->streams[n];

		*s = (struct job_stream){.job = j, .which = (enum stream)n};
		s->in = (struct loop_fd){
			.fd = take_fd(&p->ours[1 + n]), .ready = on_output, .ctx = s};
		r = loop_add(l, &s->in, EPOLLIN);
	}
	if (r == 0 && p->ours[0] >= 0) {
		j->input =
			(struct loop_fd){.fd = take_fd(&p->ours[0]), .ready = on_input, .ctx = j};
		r = loop_add(l, &j->input, EPOLLOUT);
	}
	return r;
}

int job_io_open(struct job *j, bool with_input, int ret_theirs[3], struct cay_error *err)
{
	_cleanup_(pipes_done) struct pipes pipes = PIPES_NONE;
	int r;

	if (pipes_open(&pipes, with_input, err) < 0)
		return -1;
	r = watch(j, &pipes);
	if (r < 0)
		return cay_fail(err, CAY_E_INTERNAL, -r, "watch the program's pipes");
	if (job_is_driven(j) && j->step != STEP_COMPILE) {
		fd_closep(&pipes.theirs[0]);
		if (job_channel_open(j, &pipes.theirs[0], err) < 0)
			return -1;
	}
	for (int n = 0; n < 3; n++)
		ret_theirs[n] = take_fd(&pipes.theirs[n]);
	return 0;
}
