#include "session/context_impl.h"

#include "base/attr.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "core/limits.h"
#include "policy/plan.h"
#include "session/job.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* While nobody there hears anything. */
#define AGAIN_MS 1000
#define BEGIN_MS 300

static struct loop *loop_of(const struct context *c)
{
	return c->all->place->loop;
}

static void go_on(struct context *c)
{
	(void)loop_after(loop_of(c), &c->next_turn, 0);
}

static void stop_asking(struct context *c)
{
	c->asks = false;
	free(c->prompt);
	c->prompt = NULL;
}

/* Its driver may not be at it yet: it was sent just now, or just before a pause that just ended. */
static bool has_just_begun(const struct context *c)
{
	const struct contexts *all = c->all;

	return clock_ms_since(c->begun_ns) < BEGIN_MS ||
	       (all->frozen_ns > c->begun_ns &&
		all->frozen_ns - c->begun_ns < (uint64_t)BEGIN_MS * 1000000 &&
		clock_ms_since(all->thawed_ns) < AGAIN_MS + BEGIN_MS);
}

/* Between cells a driver is deaf: it is said once more. */
static void interrupt(struct context *c)
{
	islands_interrupt(c->all->ref, c->command);
	if (has_just_begun(c))
		(void)loop_after(loop_of(c), &c->again, BEGIN_MS);
}

static void on_again(struct loop_timer *t)
{
	struct context *c = t->ctx;

	if (c->state == CONTEXT_BUSY)
		islands_interrupt(c->all->ref, c->command);
}

static void stop_timers(struct context *c)
{
	loop_cancel(loop_of(c), &c->again);
	loop_cancel(loop_of(c), &c->deadline);
	loop_cancel(loop_of(c), &c->grace);
}

/* The first cell is over. */
static void end_cell(struct context *c, const struct cell_end *e)
{
	struct cell *cell = c->cells;

	stop_timers(c);
	stop_asking(c);
	c->cause = CAUSE_NONE;
	c->cells = cell->next;
	cell->next = NULL;
	cell->context = NULL;
	cell->events->ended(cell, e);
}

/* There is no process any more, or none that we know of. */
static void forget_process(struct context *c)
{
	channel_close(&c->channel);
	context_io_take(c, true);
	loop_cancel(loop_of(c), &c->starting);
	c->command = 0;
	c->unanswered = 0;
	c->cpu_ms = 0;
	c->state = CONTEXT_ENDED;
	c->start[0] = '\0';
}

/* Of what the process has taken, what is the cell's. False: it is not known. */
static bool note_usage(struct context *c, const struct usage *all, struct usage *ret)
{
	if (!all || isnan(all->cpu_ms))
		return false;
	*ret = (struct usage){.memory_peak_bytes = all->memory_peak_bytes};
	/* Whole microseconds, as they were. */
	if (all->cpu_ms > c->cpu_ms)
		ret->cpu_ms = (double)(int64_t)(1e3 * (all->cpu_ms - c->cpu_ms) + 0.5) / 1e3;
	c->cpu_ms = all->cpu_ms;
	return true;
}

static void settle_done(struct context *c)
{
	c->measures = false;
	if (c->state == CONTEXT_BUSY)
		c->state = CONTEXT_IDLE;
	c->n_cells++;
	c->last_used_ms = clock_wall_ms();
	json_free(c->done_exception);
	c->done_exception = NULL;
}

/* A cell that is done: all: what the process has taken, or NULL. */
static void conclude(struct context *c, const struct usage *all)
{
	_cleanup_(json_freep) struct json *exception = take_ptr(&c->done_exception);
	struct usage used;
	const struct cell_end e = {.done = true,
				   .exit_code = c->done_code,
				   .exception = exception,
				   .cause = c->cause,
				   .usage = note_usage(c, all, &used) ? &used : NULL};

	settle_done(c);
	end_cell(c, &e);
	go_on(c);
}

/* With it all its cells end: those that wait were meant for what it remembered. */
static void end_cells(struct context *c, const struct cell_end *e)
{
	const struct cell_end waiting = {.status = -1, .cause = CAUSE_CANCELLED, .lost = true};

	if (c->measures)
		conclude(c, NULL);
	if (c->cells && c->cells->prepared)
		end_cell(c, e);
	while (c->cells)
		end_cell(c, e->err ? e : &waiting);
}

static void kill_process(struct context *c, enum cause cause)
{
	if (c->command)
		islands_kill(c->all->ref, c->command, cause);
}

void context_abandon(struct context *c)
{
	const struct cell_end e = {.status = -1, .cause = CAUSE_CANCELLED, .lost = true};

	kill_process(c, CAUSE_CANCELLED);
	forget_process(c);
	end_cells(c, &e);
	stop_timers(c);
	stop_asking(c);
	loop_cancel(loop_of(c), &c->next_turn);
}

/* The driver's words */

static struct context *of(const struct channel *ch)
{
	return ch->ctx;
}

static void on_driver_ready(struct channel *ch)
{
	loop_cancel(loop_of(of(ch)), &of(ch)->starting);
	of(ch)->state = CONTEXT_IDLE;
	go_on(of(ch));
}

static void on_shown(struct channel *ch, const struct json *bundle)
{
	context_io_take(of(ch), false); /* what was printed before it */
	of(ch)->cells->events->shown(of(ch)->cells, bundle);
}

static void on_noted(struct channel *ch, const char *text)
{
	of(ch)->cells->events->noted(of(ch)->cells, text);
}

static void on_asked(struct channel *ch, const char *prompt, enum channel_ask what)
{
	struct context *c = of(ch);
	struct cell *cell = c->cells;

	if (channel_feed(ch, &cell->input, what))
		return;
	if (!cell->waits) {
		(void)channel_refuse(ch,
				     "nobody can answer: send stdin with the code, or follow it "
				     "by events and answer the context's input");
		return;
	}
	stop_asking(c);
	c->asks = true;
	c->password = what == CHANNEL_ASK_PASSWORD;
	c->prompt = strdup(prompt);
	cell->events->asked(cell, prompt, c->password);
}

static void on_done(struct channel *ch, int exit_code, const struct json *exception)
{
	struct context *c = of(ch);
	struct cay_error unused;

	context_io_take(c, false); /* all it printed was written before */
	stop_timers(c);
	stop_asking(c);
	c->measures = true;
	c->done_code = exit_code;
	c->done_exception = exception ? json_ref(exception) : NULL;
	if (islands_measure(c->all->ref, c->command, &unused) == 0)
		c->unanswered++;
	else
		conclude(c, NULL);
}

/* Of a process that has ended we hear by its report, also where it only closed the channel. */
static void on_channel_ended(struct channel *ch, const char *why)
{
	struct context *c = of(ch);

	(void)snprintf(c->why, sizeof(c->why), "%s", why ? why : "");
	kill_process(c, CAUSE_NONE);
}

static const struct channel_events driver_events = {
	.ready = on_driver_ready,
	.shown = on_shown,
	.noted = on_noted,
	.asked = on_asked,
	.done = on_done,
	.ended = on_channel_ended,
};

/* Times */

static void on_grace(struct loop_timer *t)
{
	struct context *c = t->ctx;

	if (c->all->frozen) {
		c->unheard = true;
		(void)loop_after(loop_of(c), t, AGAIN_MS);
	} else if (c->unheard) {
		c->unheard = false;
		interrupt(c);
		(void)loop_after(loop_of(c), t, CONTEXT_GRACE_MS);
	} else {
		kill_process(c, c->cause);
	}
}

/* An interpreter that has only begun to start has nothing to lose. */
static void break_off(struct context *c, enum cause cause, bool harsh)
{
	if (c->measures)
		return; /* it is over */
	if (c->cause == CAUSE_NONE)
		c->cause = cause;
	loop_cancel(loop_of(c), &c->deadline);
	if (harsh || c->state != CONTEXT_BUSY) {
		kill_process(c, c->cause);
		return;
	}
	c->unheard = c->all->frozen;
	interrupt(c);
	(void)loop_after(loop_of(c), &c->grace, CONTEXT_GRACE_MS);
}

static void on_deadline(struct loop_timer *t)
{
	struct context *c = t->ctx;

	if (c->all->frozen)
		(void)loop_after(loop_of(c), t, AGAIN_MS);
	else
		break_off(c, CAUSE_TIMEOUT, false);
}

/* A cell has its own time for that. */
static void on_starting(struct loop_timer *t)
{
	struct context *c = t->ctx;

	if (c->all->frozen || c->cells) {
		(void)loop_after(loop_of(c), t, AGAIN_MS);
	} else {
		kill_process(c, CAUSE_TIMEOUT);
		forget_process(c);
	}
}

/* The next cell */

static void fail_cells(struct context *c, const struct cay_error *err)
{
	const struct cell_end e = {.err = err, .status = -1};

	end_cells(c, &e);
}

static int start_process(struct context *c, struct cay_error *err)
{
	struct island_order o = {.plan = c->plan,
				 .fds = {-1, -1, -1},
				 .flags = FLAG_TELL_READY | FLAG_STAYS | ORDER_CHANNEL,
				 .timeout_ms = LIMIT_MAX_TIME_MS};
	int r = context_io_open(c, o.fds, err);

	c->why[0] = '\0';
	c->fresh = true;
	if (r == 0)
		r = islands_command(c->all->ref, &o, &c->command, err);
	for (int n = 0; n < 3; n++)
		fd_closep(&o.fds[n]);
	if (r < 0)
		forget_process(c);
	else
		c->state = CONTEXT_STARTING;
	if (r == 0)
		(void)loop_after(loop_of(c), &c->starting, CONTEXT_START_MS);
	return r;
}

static void begin_cell(struct context *c)
{
	struct cell *cell = c->cells;
	struct cay_error err;

	(void)snprintf(c->run, sizeof(c->run), "%s", cell->run);
	cell->events->begun(cell);
	c->fresh = false;
	context_io_begin(c);
	c->state = CONTEXT_BUSY;
	c->begun_ns = clock_now_ns();
	if (c->ended[0])
		cell->events->noted(cell, c->ended);
	c->ended[0] = '\0';
	if (channel_run(&c->channel, cell->code, cell->len, &err) < 0) {
		const struct cell_end e = {.err = &err};

		/* Nothing was sent. */
		c->state = CONTEXT_IDLE;
		c->channel.state = CHANNEL_IDLE;
		end_cell(c, &e);
		go_on(c);
	}
}

/* Whether files that are changed now are newer than those there were at its turn. */
static bool is_newer(struct cell *cell)
{
	if (!cell->ticks)
		return true;
	if (!cell->since)
		cell->since = clock_file_now_ns();
	return clock_file_is_over(cell->since);
}

/* Its time is from its turn on, with the start of its interpreter. */
static void on_turn(struct loop_timer *t)
{
	struct context *c = t->ctx;
	struct cay_error err;

	if (!c->cells || !c->cells->prepared || c->state == CONTEXT_BUSY)
		return;
	if (c->state == CONTEXT_IDLE && c->channel.sock.fd < 0)
		return; /* it ended, of which we shall hear */
	if (!c->deadline.place)
		(void)loop_after(loop_of(c), &c->deadline, c->cells->timeout_ms);
	if (c->state == CONTEXT_STARTING)
		return;
	if (c->state == CONTEXT_IDLE && !is_newer(c->cells))
		(void)loop_after(loop_of(c), t, 1);
	else if (c->state == CONTEXT_IDLE)
		begin_cell(c);
	else if (start_process(c, &err) < 0)
		fail_cells(c, &err);
}

void context_run(struct context *c, struct cell *cell)
{
	struct cell **at = &c->cells;

	while (*at)
		at = &(*at)->next;
	cell->next = NULL;
	cell->context = c;
	cell->prepared = false;
	*at = cell;
	c->last_used_ms = clock_wall_ms();
}

void cell_prepared(struct cell *cell)
{
	cell->prepared = true;
	go_on(cell->context);
}

/* Its turn has come, and a process is at it. */
static bool is_under_way(const struct cell *cell)
{
	const struct context *c = cell->context;

	return c && c->cells == cell && cell->prepared && context_is_at_work(c);
}

static void take_out(struct cell *cell)
{
	struct context *c = cell->context;
	struct cell **at = &c->cells;

	if (*at == cell) {
		stop_timers(c);
		c->cause = CAUSE_NONE;
	}
	while (*at != cell)
		at = &(*at)->next;
	go_on(c); /* others may have waited for it */
	*at = cell->next;
	cell->next = NULL;
	cell->context = NULL;
}

void cell_cancel(struct cell *cell, enum cause cause, bool harsh)
{
	const struct cell_end e = {.status = -1, .cause = cause};

	if (is_under_way(cell)) {
		break_off(cell->context, cause, harsh);
	} else if (cell->context) {
		take_out(cell);
		cell->events->ended(cell, &e);
	}
}

bool cell_leave(struct cell *cell)
{
	struct context *c = cell->context;
	bool runs = is_under_way(cell) && !c->measures;

	if (!c)
		return false;
	if (c->measures && c->cells == cell)
		settle_done(c);
	if (runs) {
		kill_process(c, CAUSE_CANCELLED);
		forget_process(c); /* what is in its pipes is this cell's */
		stop_asking(c);
	}
	take_out(cell);
	return runs;
}

const struct isolation *cell_isolation(const struct cell *cell)
{
	return &cell->context->isolation;
}

const char *cell_start(const struct cell *cell)
{
	return cell->context->fresh ? cell->context->start : "kept";
}

/* What the launcher says */

static void on_process_ready(struct context *c, const struct service_report *r)
{
	c->isolation = r->isolation;
	if (r->warm && plan_warm(c->plan))
		(void)snprintf(c->start, sizeof(c->start), "warm:%s", plan_warm(c->plan));
}

static void describe_end(struct context *c, const struct service_report *r)
{
	const char *how = c->why[0]                  ? c->why
			  : r->cause == CAUSE_MEMORY ? "memory ran out"
						     : "its process ended";

	(void)snprintf(
		c->ended, sizeof(c->ended),
		"what was remembered is lost: the interpreter had ended when no code ran (%s)",
		how);
}

static void on_process_exited(struct context *c, const struct service_report *r)
{
	struct cell_end e = {.status = r->status, .lost = true};
	struct usage used;
	bool ran;

	channel_take_rest(&c->channel);
	if (c->measures)
		conclude(c, &r->usage);
	e.usage = note_usage(c, &r->usage, &used) ? &used : NULL;
	ran = c->state != CONTEXT_IDLE;
	e.cause = c->cause != CAUSE_NONE ? c->cause : (enum cause)r->cause;
	e.why = c->why[0] ? c->why : NULL;
	if (!ran)
		describe_end(c, r);
	kill_process(c, CAUSE_NONE); /* what it started and left */
	forget_process(c);
	if (ran)
		end_cells(c, &e);
	else
		go_on(c);
}

bool contexts_report(struct contexts *all, const struct service_report *r)
{
	struct context *c = all->list;

	while (c && (c->command == 0 || c->command != r->command))
		c = c->next;
	if (!c)
		return false;
	if (r->kind == REPORT_READY) {
		on_process_ready(c, r);
	} else if (r->kind == REPORT_EXITED) {
		on_process_exited(c, r);
	} else if (r->kind == REPORT_FAILED) {
		forget_process(c);
		fail_cells(c, &r->error);
	} else if (r->kind == REPORT_USAGE && c->unanswered > 0 && --c->unanswered == 0 &&
		   c->measures) {
		conclude(c, &r->usage);
	}
	return true;
}

void contexts_freeze(struct contexts *all, bool frozen)
{
	if (frozen != all->frozen && frozen)
		all->frozen_ns = clock_now_ns();
	else if (frozen != all->frozen)
		all->thawed_ns = clock_now_ns();
	all->frozen = frozen;
}

void contexts_lost(struct contexts *all, const char *reason)
{
	for (struct context *c = all->list; c; c = c->next) {
		bool was = c->state != CONTEXT_ENDED;
		const struct cell_end e = {.status = -1, .cause = CAUSE_CANCELLED, .lost = true};

		forget_process(c);
		end_cells(c, &e);
		if (was)
			(void)snprintf(c->ended, sizeof(c->ended),
				       "what was remembered is lost: the sandbox was stopped (%s)",
				       reason);
	}
	all->frozen = false;
}

void context_init(struct context *c)
{
	c->channel = CHANNEL_CLOSED;
	c->channel.events = &driver_events;
	c->channel.ctx = c;
	for (int n = 0; n < STREAMS; n++)
		c->streams[n] =
			(struct context_stream){.in.fd = -1, .context = c, .which = (enum stream)n};
	c->next_turn = (struct loop_timer){.fire = on_turn, .ctx = c};
	c->deadline = (struct loop_timer){.fire = on_deadline, .ctx = c};
	c->again = (struct loop_timer){.fire = on_again, .ctx = c};
	c->grace = (struct loop_timer){.fire = on_grace, .ctx = c};
	c->starting = (struct loop_timer){.fire = on_starting, .ctx = c};
}

int context_interrupt(struct context *c, struct cay_error *err)
{
	if (c->state != CONTEXT_BUSY || c->measures)
		return cay_fail(err, CAY_E_CONFLICT, 0, "nothing runs in the context %s", c->name);
	if (c->all->frozen) {
		(void)cay_fail(err, CAY_E_CONFLICT, 0, "the sandbox is paused");
		return cay_hint(err, "resume it first");
	}
	interrupt(c);
	return 0;
}

int context_answer(struct context *c, const char *text, size_t len, struct cay_error *err)
{
	int r;

	if (!c->asks)
		return cay_fail(err, CAY_E_CONFLICT, 0, "nothing waits for input in the context %s",
				c->name);
	r = channel_answer(&c->channel, text, len);
	if (r < 0)
		return cay_fail(err, CAY_E_TOO_LARGE, -r, "send the input");
	stop_asking(c);
	return 0;
}

int context_restart(struct context *c, struct cay_error *err)
{
	context_abandon(c);
	c->ended[0] = '\0';
	return start_process(c, err);
}
