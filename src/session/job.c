#include "session/job_impl.h"

#include "base/attr.h"
#include "base/clock.h"
#include "base/fd.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

void job_tap(struct job *j, job_tap_fn *fn, void *ctx)
{
	j->tap = fn;
	j->tap_ctx = ctx;
}

void job_go_on(struct job *j)
{
	(void)loop_after(j->place.loop, &j->next, 0);
}

void job_fail(struct job *j, const struct cay_error *err)
{
	if (!j->failed)
		j->error = *err;
	j->failed = true;
	job_go_on(j);
}

static void drop_call(struct job *j)
{
	agent_call_free(j->call);
	j->call = NULL;
}

static bool is_own(const struct job *j)
{
	return j->ref == &j->own;
}

void job_cancel(struct job *j, enum cause cause, int by)
{
	if (j->step >= STEP_EGRESS || (j->step >= STEP_MAIN && j->reported))
		return;
	if (j->watched.cause == CAUSE_NONE) {
		j->watched.cause = cause;
		j->watched.signal = by;
	}
	if (j->step == STEP_PUT || j->step == STEP_MAKE || j->step == STEP_TICK)
		job_go_on(j);
	else if (j->step == STEP_CELL)
		job_cell_cancel(j, cause);
	else
		islands_kill(j->ref, j->command, cause);
}

/* What is left of a limit; 0 is none. */
static uint64_t left_of(uint64_t limit, uint64_t used)
{
	return limit == 0 || used < limit ? limit - (limit ? used : 0) : 1;
}

static int launch(struct job *j, enum job_step step, struct cay_error *err)
{
	uint32_t flags = j->events->started && step != STEP_COMPILE ? FLAG_TELL_READY : 0;
	uint32_t cold = j->order.body->spec.cold ? FLAG_COLD : 0;
	uint32_t channel = job_is_driven(j) ? ORDER_CHANNEL : 0;
	const struct islands_bare bare = {j->order.peer};
	const struct limits *limits = &j->order.plan->limits;
	struct island_order o = {
		.plan = j->order.plan,
		.fds = {-1, -1, -1},
		.flags = step == STEP_COMPILE ? ORDER_COMPILE
			 : step == STEP_RUN   ? flags | cold | channel
					      : flags | channel,
		/* Its time began when the job did; its CPU time is the compiler's as well. */
		.timeout_ms = left_of(limits->timeout_ms, (clock_now_ns() - j->start_ns) / 1000000),
		.cpu_time_ms = left_of(limits->cpu_time_ms, (uint64_t)j->result.usage.cpu_ms),
	};
	int r;

	j->step = step;
	j->reported = false;
	j->command = 0;
	if (job_io_open(j,
			step != STEP_COMPILE && !job_is_driven(j) && j->order.body->stdin_len > 0,
			o.fds, err) < 0)
		return -1;
	if (flags & FLAG_TELL_READY)
		job_io_hold(j);
	if (step == STEP_RUN)
		r = islands_run(j->ref, &o, j->order.engine->sandboxed ? NULL : &bare, err);
	else
		r = islands_command(j->ref, &o, &j->command, err);
	for (int n = 0; n < 3; n++)
		fd_closep(&o.fds[n]);
	return r;
}

static void describe_reason(struct job *j)
{
	const char *reason = decision_reason(&j->order.decision);

	j->result.decision = j->order.decision;
	if (spec_engine_is_container(j->order.engine->id))
		j->result.engine_reason = strdup("asked for by name");
	else if (j->order.engine->sandboxed)
		j->result.engine_reason = strdup(reason);
	else if (asprintf(&j->result.engine_reason, "%s; as user %u", reason, j->uid) < 0)
		j->result.engine_reason = NULL;
}

static int describe_rules(const struct job_order *o, struct result *r)
{
	int failed = 0;

	if (!o->network)
		return plan_rules(o->plan, &r->allow, &r->block);
	for (size_t n = 0; n < o->network->allow.len && failed == 0; n++)
		failed = strv_add(&r->allow, o->network->allow.items[n]);
	for (size_t n = 0; n < o->network->block.len && failed == 0; n++)
		failed = strv_add(&r->block, o->network->block.items[n]);
	return failed;
}

static void note_start(struct job *j, bool warm)
{
	if (warm && plan_warm(j->order.plan))
		(void)snprintf(j->result.start, sizeof(j->result.start), "warm:%s",
			       plan_warm(j->order.plan));
}

static void describe(struct job *j)
{
	struct result *r = &j->result;
	const struct job_order *o = &j->order;

	memcpy(r->id, o->plan->id, sizeof(r->id));
	engine_describe(o->engine, r);
	describe_reason(j);
	r->image = o->engine->sandboxed ? strdup(o->image) : NULL;
	if (o->has_runtime) {
		r->language = strdup(o->runtime.language->name);
		r->version = o->runtime.version[0] ? strdup(o->runtime.version) : NULL;
	}
	r->usage.wall_ms = clock_ms_since(j->start_ns);
	r->queued_ms = o->queued_ms;
	memcpy(r->sandbox, o->sandbox, sizeof(r->sandbox));
	if (r->isolation.user == HOLD_UNKNOWN && o->isolation)
		r->isolation = *o->isolation;
	if (!o->body->context)
		note_start(j, o->warm);
	(void)describe_rules(o, r);
}

static void finish(struct job *j)
{
	j->step = STEP_OVER;
	drop_call(j);
	job_io_close(j);
	if (is_own(j))
		islands_forget(&j->own);
	describe(j);
	if (!j->failed)
		watch_conclude(&j->watched, &j->order.plan->limits, j->status, &j->result);
	if (!j->failed && job_is_driven(j))
		job_cell_conclude(j);
	result_warn(&j->result, j->uid);
	j->events->ended(j, j->failed ? NULL : &j->result, j->failed ? &j->error : NULL);
}

/*
 * What holds a command's pipes after its end: on an island of the job's own it is ended
 * by the launcher. On a live one it may go on in the background.
 */
static void end_rest(struct job *j)
{
	if (!is_own(j) && j->step == STEP_COMPILE)
		islands_kill(j->ref, j->command, CAUSE_NONE);
	else if (!is_own(j))
		job_io_leave(j);
}

static int after_compile(struct job *j, struct cay_error *err)
{
	struct compilation *c = &j->result.compile;

	c->wall_ms = clock_ms_since(j->start_ns);
	if (j->watched.cause != CAUSE_NONE || j->status == -1)
		return 1; /* it was ended, and with it the job */
	c->ended = true;
	c->wait_status = j->status;
	return j->status != 0 ? 1 : launch(j, STEP_MAIN, err);
}

/* Until the clock of files has gone on: what was put there is as old as it was then. */
static int await_tick(struct job *j)
{
	j->step = STEP_TICK;
	if (!j->since)
		j->since = clock_file_now_ns();
	return loop_after(j->place.loop, &j->next, 1);
}

static int begin_program(struct job *j, struct cay_error *err)
{
	bool stays = j->order.body->context;

	if (job_gets_new(j) && !stays && (!j->since || !clock_file_is_over(j->since)))
		return await_tick(j);
	if (stays) {
		job_cell_begin(j);
		return 0;
	}
	if (j->order.plan->compile.len == 0)
		return launch(j, STEP_MAIN, err);
	j->result.compile.begun = true;
	return launch(j, STEP_COMPILE, err);
}

static int get_files(struct job *j, struct cay_error *err)
{
	bool get = j->order.body->spec.get.len > 0 && j->ref->number;

	return get ? job_get(j, err) : 1;
}

static int after_main(struct job *j, struct cay_error *err)
{
	j->ran = true;
	return job_clean(j) == 0 ? 0 : get_files(j, err);
}

static int after_clean(struct job *j, struct cay_error *err)
{
	if (job_clean(j) == 0)
		return 0;
	return j->ran && !j->failed ? get_files(j, err) : 1;
}

/* The step is done: 0 when the next has begun, 1 when there is none, -1. */
static int step_on(struct job *j, struct cay_error *err)
{
	drop_call(j);
	switch (j->step) {
	case STEP_MAKE:
		return job_has_files(j) ? job_put(j, err) : begin_program(j, err);
	case STEP_PUT:
	case STEP_TICK:
		return begin_program(j, err);
	case STEP_COMPILE:
		return after_compile(j, err);
	case STEP_MAIN:
	case STEP_CELL:
		return after_main(j, err);
	case STEP_CLEAN:
		return after_clean(j, err);
	case STEP_RUN:
	case STEP_GET:
	case STEP_EGRESS:
	case STEP_OVER:
		break;
	}
	return 1;
}

static bool runs_program(const struct job *j)
{
	return j->step == STEP_RUN || j->step == STEP_COMPILE || j->step == STEP_MAIN ||
	       j->step == STEP_CELL;
}

static void on_egress(void *ctx, struct egress_log log)
{
	struct job *j = ctx;

	j->result.egress = log;
	egress_log_since(&j->result.egress, &j->before);
	finish(j);
}

/* -1: there is nothing to be heard. */
static int ask_egress(struct job *j)
{
	if (outlet_ask(&j->ref->outlet, is_own(j), on_egress, j) == 0) {
		j->step = STEP_EGRESS;
		return 0;
	}
	if (j->ref->outlet.number)
		j->result.egress = egress_log_lost();
	return -1;
}

static void on_egress_before(void *ctx, struct egress_log log)
{
	((struct job *)ctx)->before = log;
}

/* However it ended, what was put there for it alone does not stay. */
static void conclude(struct job *j)
{
	drop_call(j);
	job_cell_leave(j);
	job_io_close(j); /* their end is no step any more */
	if (job_clean(j) != 0 && ask_egress(j) < 0)
		finish(j);
}

static void on_next(struct loop_timer *t)
{
	struct job *j = t->ctx;
	struct cay_error err;
	int r;

	if (j->step == STEP_EGRESS)
		return;
	if (j->step != STEP_CLEAN &&
	    (j->failed || (j->watched.cause != CAUSE_NONE && !runs_program(j)))) {
		conclude(j);
		return;
	}
	if (runs_program(j)) {
		if (!j->reported)
			return; /* its pipes have ended: how it ended is yet to be told */
		if (!job_io_ended(j))
			end_rest(j);
		if (!job_io_ended(j))
			return;
		channel_take_rest(&j->channel);
	}
	r = step_on(j, &err);
	if (r < 0)
		job_fail(j, &err);
	else if (r == 1)
		conclude(j);
}

static void note_isolation(struct job *j, const struct service_report *r)
{
	j->uid = r->uid;
	j->result.isolation = r->isolation;
	note_start(j, r->warm);
}

static void note_ready(struct job *j, const struct service_report *r)
{
	note_isolation(j, r);
	if (j->step == STEP_MAKE)
		job_go_on(j);
	else if (j->events->started)
		j->events->started(j);
	job_io_go_on(j);
}

/* The compiler's and the program's. */
static void add_usage(struct usage *sum, const struct usage *u)
{
	sum->cpu_ms += u->cpu_ms;
	if (u->memory_peak_bytes > sum->memory_peak_bytes)
		sum->memory_peak_bytes = u->memory_peak_bytes;
	if (u->processes_peak > sum->processes_peak)
		sum->processes_peak = u->processes_peak;
}

static void note_end(struct job *j, const struct service_report *r)
{
	job_io_go_on(j); /* one that never said it had started */
	j->reported = true;
	j->status = r->status;
	/* What we asked for is why, whatever was noticed on the way. */
	if (j->watched.cause == CAUSE_NONE)
		j->watched.cause = (enum cause)r->cause;
	if (j->watched.cause == CAUSE_CANCELLED && j->watched.signal == 0)
		j->watched.signal = SIGTERM;
	job_go_on(j);
}

/* The island ended under it, by itself or because somebody ended it. */
static void note_gone(struct job *j, const struct service_report *r)
{
	j->result.state_lost = j->result.state_lost || j->cell.context;
	job_cell_leave(j);
	if (is_own(j) && (j->step == STEP_RUN || r->cause == CAUSE_MEMORY))
		note_isolation(j, r);
	if (!runs_program(j) && j->watched.cause == CAUSE_NONE)
		j->watched.cause = r->cause ? (enum cause)r->cause : CAUSE_ERROR;
	if (is_own(j))
		j->result.usage = r->usage; /* of all that ran there */
	note_end(j, r);
}

bool job_report(struct job *j, const struct service_report *r)
{
	if (j->step >= STEP_EGRESS || (r->command && r->command != j->command))
		return false;
	if (j->step == STEP_CELL && r->kind != REPORT_GONE && r->kind != REPORT_FAILED)
		return false;
	switch ((enum service_report_kind)r->kind) {
	case REPORT_READY:
		note_ready(j, r);
		break;
	case REPORT_FAILED:
		if (j->step == STEP_CLEAN)
			job_go_on(j);
		else
			job_fail(j, &r->error);
		break;
	case REPORT_EXITED:
		if (!runs_program(j))
			break;
		add_usage(&j->result.usage, &r->usage);
		note_end(j, r);
		break;
	case REPORT_GONE:
		note_gone(j, r);
		break;
	case REPORT_USAGE:
	case REPORT_NETWORK:
	case REPORT_STOCK:
		return false;
	}
	return true;
}

static void on_report(struct island_ref *ref, const struct service_report *r)
{
	(void)job_report(ref->ctx, r);
}

static struct job *job_new(const struct job_place *place, struct job_order *o)
{
	struct job *j = calloc(1, sizeof(*j));
	uint64_t limit = o->plan->limits.output_bytes;

	if (!j)
		return NULL;
	j->place = *place;
	j->order = *o;
	*o = (struct job_order){.script = SCRIPT_NONE};
	/* What borrowed from the script's own buffer still does: the bytes did not move. */
	j->start_ns = clock_now_ns();
	command_build_dir(&j->order.body->spec, j->build);
	j->status = -1;
	j->own = (struct island_ref){
		.islands = job_islands(place, j->order.engine->id), .ctx = j, .report = on_report};
	j->next = (struct loop_timer){.fire = on_next, .ctx = j};
	j->input.fd = -1;
	j->channel = CHANNEL_CLOSED;
	for (int n = 0; n < STREAMS; n++) {
		j->streams[n].in.fd = -1;
		j->streams[n].job = j;
		capture_init(&j->result.output[n], limit);
	}
	capture_init(&j->result.compile.output, limit);
	return j;
}

static int begin(struct job *j, struct cay_error *err)
{
	const struct islands_bare bare = {j->order.peer};
	bool plain = !job_has_files(j) && j->order.body->spec.get.len == 0 &&
		     j->order.plan->compile.len == 0;

	if (is_own(j) && plain)
		return launch(j, STEP_RUN, err);
	if (is_own(j)) {
		j->step = STEP_MAKE;
		return islands_make(&j->own, j->order.plan,
				    j->order.body->spec.cold ? FLAG_OWN | FLAG_COLD : FLAG_OWN,
				    j->order.engine->sandboxed ? NULL : &bare, err);
	}
	return job_has_files(j) ? job_put(j, err) : begin_program(j, err);
}

struct islands *job_islands(const struct job_place *place, enum spec_engine engine)
{
	return spec_engine_is_container(engine) ? place->containers : place->islands;
}

struct job *job_start(const struct job_place *place, struct island_ref *on, struct job_order *o,
		      const struct job_events *events, void *ctx, struct cay_error *err)
{
	struct job *j = job_new(place, o);

	if (!j) {
		(void)cay_fail(err, CAY_E_INTERNAL, ENOMEM, "start the program");
		return NULL;
	}
	j->events = events;
	j->ctx = ctx;
	j->ref = on ? on : &j->own;
	if (on)
		(void)outlet_ask(&on->outlet, false, on_egress_before, j);
	if (j->order.context)
		job_cell_expect(j);
	j->order.context = NULL;
	if (begin(j, err) == 0)
		return j;
	job_free(j);
	return NULL;
}

void job_free(struct job *j)
{
	static const struct job_events nobody = {0};

	if (!j)
		return;
	j->events = &nobody;
	drop_call(j);
	job_cell_leave(j);
	if (is_own(j))
		islands_forget(&j->own);
	else if (j->step != STEP_OVER && !j->reported && j->command)
		islands_kill(j->ref, j->command, CAUSE_CANCELLED);
	if (j->place.outlets)
		outlets_forget(j->place.outlets, j);
	loop_cancel(j->place.loop, &j->next);
	job_io_close(j);
	egress_log_done(&j->before);
	job_order_done(&j->order);
	result_done(&j->result);
	free(j);
}
