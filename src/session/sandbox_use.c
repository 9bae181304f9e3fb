#include "session/sandbox_impl.h"

#include "base/attr.h"
#include "base/fd.h"
#include "session/files_call.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* A terminal has no time-out of its own: the sandbox's end it. */
#define TERMINAL_MS LIMIT_MAX_TIME_MS

/* One that is stopped is started: what is asked of it waits until it stands. */
static int check_usable(struct sandbox *s, struct cay_error *err)
{
	if (s->state == SANDBOX_PAUSED) {
		(void)cay_fail(err, CAY_E_CONFLICT, 0, "the sandbox %s is paused", s->id);
		return cay_hint(err, "resume it first");
	}
	if (s->state == SANDBOX_STOPPED)
		return sandbox_wake(s, err);
	if (!sandbox_is_alive(s->state))
		return cay_fail(err, CAY_E_CONFLICT, 0, "the sandbox %s is not running", s->id);
	return 0;
}

static void take(struct sandbox *s)
{
	s->busy++;
	sandbox_touch(s);
}

static void give(struct sandbox *s)
{
	s->busy--;
	sandbox_touch(s);
	sandbox_look_for_end(s);
}

static int copy_mount(struct mount_spec *to, const struct mount_spec *from)
{
	*to = (struct mount_spec){.access = from->access};
	if (!from->source)
		return 0;
	to->source = strdup(from->source);
	to->target = strdup(from->target);
	return to->source && to->target ? 0 : -ENOMEM;
}

/* The command's own variables win. */
static int merge_env(const struct spec *base, struct spec *spec)
{
	struct strv own = spec->env;
	int r = 0;

	spec->env = (struct strv){0};
	for (size_t n = 0; n < base->env.len && r == 0; n++)
		r = strv_add(&spec->env, base->env.items[n]);
	if (r == 0)
		r = strv_merge_env(&spec->env, &own);
	strv_done(&own);
	return r;
}

/* What was decided for the sandbox is so for all that runs there. */
static int inherit(const struct sandbox *s, struct spec *spec)
{
	const struct spec *base = &s->body->spec;
	struct limits limits = base->limits;
	int r = merge_env(base, spec);

	if (spec->limits.timeout_ms)
		limits.timeout_ms = spec->limits.timeout_ms;
	if (spec->limits.output_bytes)
		limits.output_bytes = spec->limits.output_bytes;
	spec->limits = limits;
	spec->allow_degraded = base->allow_degraded;
	spec->live_roots = base->live_roots;
	spec->kept = base->kept;
	spec->island = s->plan;
	spec->engine = base->engine;
	spec->image = base->image ? strdup(base->image) : NULL;
	if (base->image && !spec->image)
		return -ENOMEM;
	for (size_t n = 0; n < base->n_mounts && r == 0; n++, spec->n_mounts++)
		r = copy_mount(&spec->mounts[n], &base->mounts[n]);
	if (r == 0)
		r = copy_mount(&spec->workspace, &base->workspace);
	if (r == 0 && !spec->workdir && base->workdir) {
		spec->workdir = strdup(base->workdir);
		r = spec->workdir ? 0 : -ENOMEM;
	}
	return r;
}

int sandbox_order(struct sandbox *s, struct request_body *body, uint64_t cpu_left_ms,
		  struct job_order *ret, struct cay_error *err)
{
	struct limits *limits = &body->spec.limits;

	*ret = (struct job_order){.body = body, .script = SCRIPT_NONE};
	/* Without a plan it would be a run of its own. */
	if (sandbox_enable(s, err) < 0)
		return -1;
	if (inherit(s, &body->spec) < 0)
		return cay_fail(err, CAY_E_INTERNAL, ENOMEM, "prepare the command");
	if (cpu_left_ms && (!limits->cpu_time_ms || limits->cpu_time_ms > cpu_left_ms))
		limits->cpu_time_ms = cpu_left_ms;
	if (!body->spec.own[0] && id_make("run", body->spec.own) < 0)
		return cay_fail(err, CAY_E_INTERNAL, errno, "name the command");
	if (job_order_make(ret, s->all->config.settings, body, s->image, err) < 0)
		return -1;
	memcpy(ret->sandbox, s->id, sizeof(ret->sandbox));
	ret->isolation = &s->isolation;
	ret->warm = s->warm;
	ret->network = &s->body->spec.network;
	return 0;
}

static void on_printed(void *ctx, struct job *j, enum stream stream, const char *data, size_t len)
{
	struct sandbox *s = ctx;

	logs_add(&s->logs, job_id(j), stream, data, len);
}

static int enter_context(struct sandbox *s, struct job_order *o, struct cay_error *err)
{
	const struct spec *spec = &o->body->spec;
	const struct context_start start = {.name = o->body->context,
					    .runtime = &o->runtime,
					    .plan = o->plan,
					    .version = spec->version,
					    .workdir = spec->workdir,
					    .env = &spec->env};

	if (!start.name)
		return 0;
	o->context = context_get(&s->contexts, &start, err);
	return o->context ? 0 : -1;
}

int sandbox_restart_context(struct sandbox *s, struct context *c, struct cay_error *err)
{
	if (check_usable(s, err) < 0)
		return -1;
	sandbox_touch(s);
	return context_restart(c, err);
}

struct job *sandbox_start(struct sandbox *s, struct job_order *o, const struct job_events *events,
			  void *ctx, struct cay_error *err)
{
	struct sandbox_job *held;
	struct job *j = NULL;

	if (check_usable(s, err) < 0 || enter_context(s, o, err) < 0)
		return NULL;
	held = calloc(1, sizeof(*held));
	if (held)
		j = job_start(&s->all->config.place, &s->ref, o, events, ctx, err);
	else
		(void)cay_fail(err, CAY_E_INTERNAL, ENOMEM, "start the command");
	if (!j) {
		free(held);
		return NULL;
	}
	job_tap(j, on_printed, s);
	held->job = j;
	held->next = s->jobs;
	s->jobs = held;
	take(s);
	return j;
}

void sandbox_job_free(struct sandbox *s, struct job *j)
{
	struct sandbox_job **at = &s->jobs;
	struct sandbox_job *held;

	while (*at && (*at)->job != j)
		at = &(*at)->next;
	held = *at;
	if (held)
		*at = held->next;
	free(held);
	job_free(j);
	give(s);
}

struct agent_call *sandbox_call(struct sandbox *s, const struct agent_ask *ask,
				const struct agent_sink *sink, void *ctx, struct cay_error *err)
{
	struct agent_call *call;
	uint32_t unused;

	if (check_usable(s, err) < 0)
		return NULL;
	call = files_call(s->all->config.place.loop, &s->ref, s->plan, ask, sink, ctx, &unused,
			  err);
	if (call)
		take(s);
	return call;
}

void sandbox_call_free(struct sandbox *s, struct agent_call *call)
{
	agent_call_free(call);
	give(s);
}

static struct sandbox_terminal *terminals; /* of all sandboxes: there are few */

struct sandbox_terminal *sandbox_terminal(struct sandbox *s, struct job_order *o,
					  const struct winsize *size, sandbox_terminal_fn *ended,
					  void *ctx, int *ret_sock, struct cay_error *err)
{
	_cleanup_(fd_closep) int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	struct sandbox_terminal *t = calloc(1, sizeof(*t));
	struct island_order order;
	int pair[2] = {-1, -1};

	if (check_usable(s, err) < 0) {
		free(t);
		return NULL;
	}
	if (!t || null < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
		(void)cay_fail(err, CAY_E_INTERNAL, errno, "make a terminal");
		free(t);
		return NULL;
	}
	*t = (struct sandbox_terminal){.sandbox = s, .ended = ended, .ctx = ctx};
	order = (struct island_order){.plan = o->plan,
				      .fds = {pair[1], null, null},
				      .flags = ORDER_TERMINAL,
				      .timeout_ms = TERMINAL_MS};
	(void)msg_send(pair[0], size, sizeof(*size), NULL, 0);
	if (islands_command(&s->ref, &order, &t->command, err) < 0) {
		fd_closep(&pair[0]);
		fd_closep(&pair[1]);
		free(t);
		return NULL;
	}
	fd_closep(&pair[1]);
	*ret_sock = pair[0];
	t->next = terminals;
	terminals = t;
	take(s);
	return t;
}

void sandbox_terminal_close(struct sandbox_terminal *t)
{
	struct sandbox_terminal **at = &terminals;
	struct sandbox *s = t->sandbox;

	while (*at && *at != t)
		at = &(*at)->next;
	if (*at)
		*at = t->next;
	if (t->command)
		islands_kill(&s->ref, t->command, CAUSE_CANCELLED);
	free(t);
	give(s);
}

static bool terminal_report(struct sandbox *s, const struct service_report *r)
{
	for (struct sandbox_terminal *t = terminals; t; t = t->next) {
		if (t->sandbox != s || t->command != r->command || r->kind == REPORT_READY)
			continue;
		t->command = 0;
		t->ended(t->ctx, r);
		return true;
	}
	return false;
}

void sandbox_command_report(struct sandbox *s, const struct service_report *r)
{
	if (terminal_report(s, r) || contexts_report(&s->contexts, r))
		return;
	for (struct sandbox_job *held = s->jobs; held; held = held->next)
		if (job_report(held->job, r))
			return;
}

static struct sandbox_terminal *next_terminal(const struct sandbox *s)
{
	struct sandbox_terminal *t = terminals;

	while (t && (t->sandbox != s || t->command == 0))
		t = t->next;
	return t;
}

void sandbox_tell_gone(struct sandbox *s, const struct service_report *r)
{
	struct sandbox_terminal *t;

	/* A job hears of it in the loop's next round at the earliest, so the list stays as it is.
	 */
	for (struct sandbox_job *held = s->jobs; held; held = held->next)
		(void)job_report(held->job, r);
	while ((t = next_terminal(s))) {
		t->command = 0;
		t->ended(t->ctx, r);
	}
}
