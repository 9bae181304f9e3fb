#include "session/job.h"

#include "base/attr.h"
#include "base/clock.h"
#include "base/fd.h"
#include "image/host.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define CHUNK 65536

enum job_step {
	STEP_RUN,     /* on an island of its own, and nothing else to do */
	STEP_COMPILE, /* as a command */
	STEP_MAIN,    /* as a command */
	STEP_OVER,
};

struct job_stream {
	struct loop_fd in;
	struct job *job;
	enum stream which;
	bool paused;
};

struct job {
	struct loop *loop;
	struct islands *islands;
	struct island_ref own; /* where it is not on a live one */
	struct island_ref *ref;
	uint32_t command; /* that runs now; 0: the island itself is the job's */
	struct job_order order;
	const struct job_events *events;
	void *ctx;
	enum job_step step;
	uint64_t start_ns;
	struct job_stream streams[STREAMS];
	struct loop_fd input;
	size_t input_done;
	bool reported; /* how the program ended is known */
	bool failed;
	int status;
	struct watched watched;
	struct cay_error error;
	struct result result;
	uint64_t dropped; /* bytes, past the limit of output */
	struct loop_timer end;
};

void *job_ctx(const struct job *j)
{
	return j->ctx;
}

const char *job_id(const struct job *j)
{
	return j->order.plan->id;
}

const struct job_order *job_order(const struct job *j)
{
	return &j->order;
}

const struct isolation *job_isolation(const struct job *j)
{
	return &j->result.isolation;
}

static void stream_close(struct job_stream *s)
{
	loop_remove(s->job->loop, &s->in);
	fd_closep(&s->in.fd);
}

static void input_close(struct job *j)
{
	loop_remove(j->loop, &j->input);
	fd_closep(&j->input.fd);
}

static bool output_is_read(const struct job *j)
{
	for (int n = 0; n < STREAMS; n++)
		if (j->streams[n].in.fd >= 0)
			return false;
	return true;
}

/* When all is known: in the loop's next round, so that nobody is called from inside a call. */
static void look_for_end(struct job *j)
{
	if (j->step != STEP_OVER && j->reported && output_is_read(j))
		(void)loop_after(j->loop, &j->end, 0);
}

void job_cancel(struct job *j, enum cause cause, int by)
{
	if (j->step == STEP_OVER || j->reported)
		return;
	if (j->watched.cause == CAUSE_NONE) {
		j->watched.cause = cause;
		j->watched.signal = by;
	}
	islands_kill(j->islands, j->ref, j->command, cause);
}

static void keep(struct job *j, enum stream s, const char *data, size_t len)
{
	struct capture *c =
		j->step == STEP_COMPILE ? &j->result.compile.output : &j->result.output[s];

	if (capture_add(c, data, len) < 0) {
		j->watched.error = ENOMEM;
		job_cancel(j, CAUSE_ERROR, 0);
	}
	if (c->dropped > FLOOD_BYTES)
		job_cancel(j, CAUSE_OUTPUT, 0);
}

static void on_output(struct loop_fd *f, uint32_t events _unused_)
{
	static char chunk[CHUNK];
	struct job_stream *s = f->ctx;
	struct job *j = s->job;
	ssize_t n = read(f->fd, chunk, sizeof(chunk));

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n <= 0) {
		stream_close(s);
		look_for_end(j);
		return;
	}
	keep(j, s->which, chunk, (size_t)n);
	if (j->events->output && j->step != STEP_COMPILE &&
	    j->events->output(j, s->which, chunk, (size_t)n)) {
		s->paused = true;
		loop_remove(j->loop, f);
	}
}

void job_resume(struct job *j, enum stream which)
{
	struct job_stream *s = &j->streams[which];

	if (s->paused && s->in.fd >= 0)
		(void)loop_add(j->loop, &s->in, EPOLLIN);
	s->paused = false;
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

static int watch_pipes(struct job *j, struct pipes *pipes)
{
	int r = 0;

	for (int n = 0; n < STREAMS && r == 0; n++) {
		struct job_stream *s = &j->streams[n];

		*s = (struct job_stream){.job = j, .which = (enum stream)n};
		s->in = (struct loop_fd){
			.fd = take_fd(&pipes->ours[1 + n]), .ready = on_output, .ctx = s};
		r = loop_add(j->loop, &s->in, EPOLLIN);
	}
	if (r == 0 && pipes->ours[0] >= 0) {
		j->input = (struct loop_fd){
			.fd = take_fd(&pipes->ours[0]), .ready = on_input, .ctx = j};
		r = loop_add(j->loop, &j->input, EPOLLOUT);
	}
	return r;
}

/* What it has left of its time, which began when the job did. */
static void set_time_left(struct job *j)
{
	struct limits *l = &j->order.plan->limits;
	uint64_t passed = (clock_now_ns() - j->start_ns) / 1000000;

	l->timeout_ms = passed < l->timeout_ms ? l->timeout_ms - passed : 1;
}

static int launch(struct job *j, struct cay_error *err)
{
	_cleanup_(pipes_done) struct pipes pipes = PIPES_NONE;
	const struct request_body *b = j->order.body;
	bool compile = j->step == STEP_COMPILE;
	uint32_t flags = j->events->started && !compile ? FLAG_TELL_READY : 0;
	int r;

	if (pipes_open(&pipes, !compile && b->stdin_len > 0, err) < 0)
		return -1;
	r = watch_pipes(j, &pipes);
	if (r < 0)
		return cay_fail(err, CAY_E_INTERNAL, -r, "watch the program's pipes");
	if (j->step == STEP_RUN)
		return islands_run(j->islands, j->ref, j->order.plan, pipes.theirs, flags, err);
	return islands_command(j->islands, j->ref, j->order.plan, pipes.theirs,
			       compile ? flags | ORDER_COMPILE : flags, &j->command, err);
}

static void describe(struct job *j)
{
	struct result *r = &j->result;
	const struct job_order *o = &j->order;

	memcpy(r->id, o->plan->id, sizeof(r->id));
	r->engine = strdup("native");
	r->image = strdup(HOST_IMAGE);
	r->sandboxed = true;
	if (o->has_runtime) {
		r->language = strdup(o->runtime.language->name);
		r->version = o->runtime.version[0] ? strdup(o->runtime.version) : NULL;
	}
	r->usage.wall_ms = clock_ms_since(j->start_ns);
}

static void finish(struct job *j)
{
	struct result *r = &j->result;

	j->step = STEP_OVER;
	input_close(j);
	describe(j);
	if (j->failed) {
		j->events->ended(j, NULL, &j->error);
		return;
	}
	watch_conclude(&j->watched, &j->order.plan->limits, j->status, r);
	j->events->ended(j, r, NULL);
}

static void fail(struct job *j, const struct cay_error *err)
{
	j->failed = true;
	j->error = *err;
	j->reported = true;
	for (int n = 0; n < STREAMS; n++)
		if (j->streams[n].in.fd >= 0)
			stream_close(&j->streams[n]);
	look_for_end(j);
}

static void on_end(struct loop_timer *t)
{
	struct job *j = t->ctx;

	finish(j);
}

static void note_isolation(struct job *j, const struct service_report *r)
{
	strv_done(&j->result.isolation.degraded);
	if (isolation_unpack(&r->isolation, &j->result.isolation) < 0)
		j->watched.error = ENOMEM;
}

static void note_end(struct job *j, const struct service_report *r)
{
	j->reported = true;
	j->status = r->status;
	j->result.usage = r->usage;
	/* What we asked for is why, whatever was noticed on the way. */
	if (j->watched.cause == CAUSE_NONE)
		j->watched.cause = (enum cause)r->cause;
	if (j->watched.cause == CAUSE_CANCELLED && j->watched.signal == 0)
		j->watched.signal = SIGTERM;
	look_for_end(j);
}

bool job_report(struct job *j, const struct service_report *r)
{
	if (j->step == STEP_OVER || (j->command && r->command && r->command != j->command))
		return false;
	switch ((enum service_report_kind)r->kind) {
	case REPORT_READY:
		note_isolation(j, r);
		if (j->events->started)
			j->events->started(j);
		break;
	case REPORT_FAILED:
		fail(j, &r->error);
		break;
	case REPORT_EXITED:
		note_end(j, r);
		break;
	case REPORT_GONE:
		if (j->step == STEP_RUN)
			note_isolation(j, r);
		note_end(j, r);
		break;
	case REPORT_USAGE:
		return false;
	}
	return true;
}

static void on_report(struct island_ref *ref, const struct service_report *r)
{
	(void)job_report(ref->ctx, r);
}

static struct job *job_new(struct loop *loop, struct islands *islands, struct job_order *o)
{
	struct job *j = calloc(1, sizeof(*j));

	if (!j)
		return NULL;
	j->loop = loop;
	j->islands = islands;
	j->order = *o;
	*o = (struct job_order){.script = SCRIPT_NONE};
	j->start_ns = clock_now_ns();
	j->status = -1;
	j->own = (struct island_ref){.ctx = j, .report = on_report};
	j->end = (struct loop_timer){.fire = on_end, .ctx = j};
	j->input.fd = -1;
	for (int n = 0; n < STREAMS; n++) {
		j->streams[n].in.fd = -1;
		j->streams[n].job = j;
		capture_init(&j->result.output[n], j->order.plan->limits.output_bytes);
	}
	capture_init(&j->result.compile.output, j->order.plan->limits.output_bytes);
	return j;
}

struct job *job_start(struct loop *loop, struct islands *islands, struct island_ref *on,
		      struct job_order *o, const struct job_events *events, void *ctx,
		      struct cay_error *err)
{
	struct job *j = job_new(loop, islands, o);

	if (!j) {
		(void)cay_fail(err, CAY_E_INTERNAL, ENOMEM, "start the program");
		return NULL;
	}
	j->events = events;
	j->ctx = ctx;
	j->ref = on ? on : &j->own;
	j->step = on ? STEP_MAIN : STEP_RUN;
	set_time_left(j);
	if (launch(j, err) < 0) {
		job_free(j);
		return NULL;
	}
	return j;
}

void job_free(struct job *j)
{
	if (!j)
		return;
	if (j->ref == &j->own)
		islands_forget(j->islands, &j->own);
	else if (j->step != STEP_OVER && !j->reported)
		islands_kill(j->islands, j->ref, j->command, CAUSE_CANCELLED);
	loop_cancel(j->loop, &j->end);
	input_close(j);
	for (int n = 0; n < STREAMS; n++)
		stream_close(&j->streams[n]);
	job_order_done(&j->order);
	result_done(&j->result);
	free(j);
}
