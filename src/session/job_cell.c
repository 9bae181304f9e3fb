/*
 * Code that a driver runs: in a context, whose cell the job is from its turn on; or by a driver
 * that is the job's own program, with this one cell, which ends when it has no more to hear.
 */
#include "session/job_impl.h"

#include "base/attr.h"
#include "base/clock.h"
#include "base/json.h"
#include "spec/driver.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool job_is_driven(const struct job *j)
{
	return j->order.body->spec.cell != NULL;
}

static void tell(struct job *j, const char *what, const struct json *data)
{
	if (j->events->shown)
		j->events->shown(j, what, data);
}

static void show(struct job *j, const struct json *bundle)
{
	struct result *r = &j->result;

	if (!r->results)
		r->results = json_new_array();
	json_add(r->results, json_ref(bundle));
	tell(j, "display", bundle);
}

static void note(struct job *j, const char *text)
{
	_cleanup_(json_freep) struct json *o = json_new_object();

	(void)strv_add(&j->result.notes, text);
	json_set_str(o, "text", text);
	tell(j, "note", o);
}

static void note_done(struct job *j, int exit_code, const struct json *exception)
{
	j->done = true;
	j->done_code = exit_code;
	if (exception)
		j->result.exception = json_ref(exception);
}

static void note_input(struct job *j)
{
	const struct request_body *b = j->order.body;

	j->stdin_lines = (struct channel_input){
		.given = b->has_stdin, .data = b->stdin_data, .len = b->stdin_len};
}

/* In a context */

static void cell_begun(struct cell *c)
{
	struct job *j = c->ctx;

	j->since = c->since;
	j->start_ns = clock_now_ns(); /* what it waited for others is not its own time */
	j->result.isolation = *cell_isolation(c);
	(void)snprintf(j->result.start, sizeof(j->result.start), "%s", cell_start(c));
	if (j->events->started)
		j->events->started(j);
}

static bool cell_output(struct cell *c, enum stream s, const char *data, size_t len)
{
	return job_take_output(c->ctx, s, data, len);
}

static void cell_shown(struct cell *c, const struct json *bundle)
{
	show(c->ctx, bundle);
}

static void cell_noted(struct cell *c, const char *text)
{
	note(c->ctx, text);
}

static void cell_asked(struct cell *c, const char *prompt, bool password)
{
	_cleanup_(json_freep) struct json *o = json_new_object();

	json_set_str(o, "prompt", prompt);
	json_set_bool(o, "password", password);
	tell(c->ctx, "input", o);
}

static void cell_ended(struct cell *c, const struct cell_end *e)
{
	struct job *j = c->ctx;

	if (e->err) {
		job_fail(j, e->err);
		return;
	}
	if (j->step != STEP_CELL) {
		j->result.state_lost = e->lost;
		job_cancel(j, e->cause, SIGTERM);
		return;
	}
	if (e->done)
		note_done(j, e->exit_code, e->exception);
	if (e->usage) {
		j->result.usage.cpu_ms = e->usage->cpu_ms;
		j->result.usage.memory_peak_bytes = e->usage->memory_peak_bytes;
	}
	j->result.state_lost = e->lost;
	if (e->why)
		(void)snprintf(j->why, sizeof(j->why), "%s", e->why);
	j->status = e->status;
	if (j->watched.cause == CAUSE_NONE)
		j->watched.cause = e->cause;
	if (j->watched.cause == CAUSE_CANCELLED && j->watched.signal == 0)
		j->watched.signal = SIGTERM;
	j->reported = true;
	job_go_on(j);
}

static const struct cell_events cell_events = {
	.begun = cell_begun,
	.output = cell_output,
	.shown = cell_shown,
	.noted = cell_noted,
	.asked = cell_asked,
	.ended = cell_ended,
};

void job_cell_expect(struct job *j)
{
	const struct job_order *o = &j->order;

	note_input(j);
	j->result.context = strdup(o->body->context);
	j->cell = (struct cell){.events = &cell_events,
				.ctx = j,
				.run = o->plan->id,
				.code = o->body->spec.cell,
				.len = o->body->spec.cell_len,
				.timeout_ms = o->plan->limits.timeout_ms,
				.input = j->stdin_lines,
				.waits = o->may_ask,
				.ticks = job_gets_new(j)};
	context_run(o->context, &j->cell);
}

void job_cell_begin(struct job *j)
{
	j->step = STEP_CELL;
	j->reported = false;
	j->command = 0;
	j->result.usage.cpu_ms = NAN; /* until it is over */
	cell_prepared(&j->cell);
}

void job_cell_cancel(struct job *j, enum cause cause)
{
	/* A flood does not stop at a word. */
	cell_cancel(&j->cell, cause, cause != CAUSE_CANCELLED);
}

void job_cell_leave(struct job *j)
{
	if (cell_leave(&j->cell))
		j->result.state_lost = true;
}

/* By a driver of its own */

static void on_ready(struct channel *ch)
{
	struct job *j = ch->ctx;
	const struct spec *spec = &j->order.body->spec;
	struct cay_error err;

	if (channel_run(ch, spec->cell, spec->cell_len, &err) < 0)
		job_fail(j, &err);
}

static void on_shown(struct channel *ch, const struct json *bundle)
{
	show(ch->ctx, bundle);
}

static void on_noted(struct channel *ch, const char *text)
{
	note(ch->ctx, text);
}

static void on_asked(struct channel *ch, const char *prompt _unused_, enum channel_ask what)
{
	struct job *j = ch->ctx;

	if (!channel_feed(ch, &j->stdin_lines, what))
		(void)channel_refuse(ch, "there is no input: send stdin with the code");
}

static void on_done(struct channel *ch, int exit_code, const struct json *exception)
{
	note_done(ch->ctx, exit_code, exception);
	channel_close(ch); /* it ends when there is nothing more to hear */
}

static void on_ended(struct channel *ch, const char *why)
{
	struct job *j = ch->ctx;

	if (!why)
		return; /* how it ended is yet to be told */
	(void)snprintf(j->why, sizeof(j->why), "%s", why);
	job_cancel(j, CAUSE_ERROR, 0);
}

static const struct channel_events driver_events = {
	.ready = on_ready,
	.shown = on_shown,
	.noted = on_noted,
	.asked = on_asked,
	.done = on_done,
	.ended = on_ended,
};

int job_channel_open(struct job *j, int *ret_theirs, struct cay_error *err)
{
	note_input(j);
	j->channel = CHANNEL_CLOSED;
	j->channel.events = &driver_events;
	j->channel.ctx = j;
	return channel_open(&j->channel, j->place.loop, driver_is_plain(j->order.runtime.language),
			    ret_theirs, err);
}

/* "ValueError: no such column", which is the first thing to know of it. */
static void say_exception(struct result *r)
{
	const struct json *name = json_get(r->exception, "name");
	const struct json *value = json_get(r->exception, "value");
	size_t unused;

	(void)snprintf(r->message, sizeof(r->message), "%.60s: %.180s", json_bytes(name, &unused),
		       json_bytes(value, &unused));
	r->message[strcspn(r->message, "\n")] = '\0';
}

void job_cell_conclude(struct job *j)
{
	struct result *r = &j->result;

	if (j->why[0]) {
		r->status = STATUS_FAILED;
		r->exited = false;
		r->signal = 0;
		(void)snprintf(r->message, sizeof(r->message), "ended: %s", j->why);
		return;
	}
	/* A good end of the interpreter is none of the code's. */
	if (!j->done && r->state_lost && r->status == STATUS_OK) {
		r->status = STATUS_FAILED;
		(void)snprintf(r->message, sizeof(r->message), "the interpreter was left");
	}
	if (!j->done || j->watched.cause != CAUSE_NONE)
		return;
	r->exited = true;
	r->signal = 0;
	r->exit_code = j->done_code;
	r->status = j->done_code == 0 && !r->exception ? STATUS_OK : STATUS_FAILED;
	r->message[0] = '\0';
	if (r->exception)
		say_exception(r);
	else if (r->exit_code != 0)
		(void)snprintf(r->message, sizeof(r->message), "exited with code %d", r->exit_code);
}
