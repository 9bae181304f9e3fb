#include "engine/container/keeper_impl.h"

#include "base/attr.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/text.h"
#include "base/title.h"
#include "engine/container/facts.h"
#include "engine/self.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

/* PID 1 has so long to say that it is ready, on a machine with much other work. */
#define SETUP_MS 60000u

#define REQUEST_FDS 3

void keeper_report(struct keeper *k, const struct service_report *r)
{
	/* Who does not listen any more is heard of by the socket's end. */
	(void)msg_send(k->asker.fd, r, sizeof(*r), NULL, 0);
}

static void report_failure(struct keeper *k, uint32_t command, const struct cay_error *err)
{
	struct service_report r = {.kind = REPORT_FAILED,
				   .island = k->number,
				   .command = command,
				   .status = -1,
				   .error = *err};

	keeper_report(k, &r);
}

/* Of the whole island, and the last. */
static void report_end(struct keeper *k)
{
	struct service_report r = {
		.kind = k->failed ? REPORT_FAILED : REPORT_GONE,
		.island = k->number,
		.status = k->status,
		.cause = (uint32_t)k->cause,
		.usage = k->usage,
		.isolation = k->isolation,
	};

	if (k->failed)
		r.error = k->error;
	keeper_report(k, &r);
}

void keeper_end(struct keeper *k, enum cause cause)
{
	if (k->cause == CAUSE_NONE)
		k->cause = cause;
	k->done = true;
	loop_stop(k->loop);
}

static void fail_island(struct keeper *k, const struct cay_error *err)
{
	k->failed = true;
	k->error = *err;
	keeper_end(k, CAUSE_ERROR);
}

static void drop_held(struct keeper *k)
{
	for (int n = 0; n < REQUEST_FDS; n++)
		fd_closep(&k->held_fds[n]);
}

static int start_held(struct keeper *k, struct cay_error *err)
{
	int r = keeper_command_start(k, &k->held, KEEPER_SINGLE, k->plan, k->held_fds, err);

	drop_held(k);
	return r;
}

/* Inside it was judged as well; here is what only the host knows. */
static void on_ready(struct keeper *k, const struct wire_head *h, const void *body)
{
	struct service_report r = {
		.kind = REPORT_READY, .island = k->number, .command = h->command};
	struct keeper_command *c = keeper_command_find(k, h->command);
	uint64_t own[NAMESPACES];
	struct wire_facts facts;
	struct cay_error err;

	if (h->command) {
		r.command = k->single ? 0 : h->command;
		r.isolation = k->isolation;
		if (c && c->flags & FLAG_TELL_READY) {
			c->flags &= ~FLAG_TELL_READY; /* once, whatever it says */
			keeper_report(k, &r);
		}
		return;
	}
	if (k->stands || h->len != sizeof(facts))
		return;
	memcpy(&facts, body, sizeof(facts));
	if (namespaces_read(own) < 0) {
		(void)cay_fail(&err, CAY_E_ENGINE, errno, "read the namespaces");
		fail_island(k, &err);
	} else if (facts_judge(&facts, k->plan, &k->who, own, &k->isolation, &err) < 0) {
		fail_island(k, &err);
	} else {
		k->stands = true;
		loop_cancel(k->loop, &k->setup);
		r.isolation = k->isolation;
		if (!k->single)
			keeper_report(k, &r);
		else if (start_held(k, &err) < 0)
			fail_island(k, &err);
	}
}

/* Its words end in errors, and on terminals. */
static void make_harmless(char *text)
{
	size_t len = text_utf8_whole(text, strlen(text));

	text[len] = '\0';
	text_flatten(text, len);
}

static void on_failed(struct keeper *k, const struct wire_head *h, const void *body)
{
	struct keeper_command *c = keeper_command_find(k, h->command);
	struct cay_error err;

	memcpy(&err, body, sizeof(err));
	cay_error_mend(&err);
	make_harmless(err.text);
	make_harmless(err.hint);
	if (h->command == 0 || k->single) {
		fail_island(k, &err);
		return;
	}
	relay_drop(&k->wire, h->command);
	if (!c)
		return;
	keeper_command_free(c);
	report_failure(k, h->command, &err);
}

static void on_exited(struct keeper *k, const struct wire_head *h, const void *body)
{
	struct keeper_command *c = keeper_command_find(k, h->command);
	struct wire_end end;
	struct cay_error err;

	if (!k->stands) {
		(void)cay_fail(&err, CAY_E_ENGINE, 0,
			       "the container told of a program's end before it was ready");
		fail_island(k, &err);
		return;
	}
	memcpy(&end, body, sizeof(end));
	if (c)
		keeper_command_ended(c, &end);
	/* What it printed is still under way, if it is. */
	if (k->single && !k->commands)
		keeper_end(k, CAUSE_NONE);
}

static void report_use(struct keeper *k, uint32_t command)
{
	const struct wire_use *use = &k->use;
	struct service_report r = {.kind = REPORT_USAGE, .island = k->number, .command = command};

	if (command) {
		r.usage = keeper_command_usage(k, command);
	} else {
		r.usage.cpu_ms = (double)use->cpu_us / 1e3;
		r.usage.memory_peak_bytes = use->memory_peak_bytes;
		r.usage.processes_peak = use->processes_peak > 1 ? use->processes_peak - 1 : 0;
	}
	r.memory_bytes = use->memory_bytes;
	r.processes = use->processes > 1 ? use->processes - 1 : 0;
	keeper_report(k, &r);
}

static void on_use(struct keeper *k, const void *body)
{
	struct wire_use use;

	memcpy(&use, body, sizeof(use));
	keeper_used(k, &use);
	for (size_t n = 0; n < k->n_asked; n++)
		report_use(k, k->asked[n]);
	k->n_asked = 0;
}

static void on_said(struct relay *w, const struct wire_head *h, const void *body)
{
	struct keeper *k = w->ctx;

	if (h->kind == WIRE_READY)
		on_ready(k, h, body);
	else if (h->kind == WIRE_FAILED)
		on_failed(k, h, body);
	else if (h->kind == WIRE_EXITED)
		on_exited(k, h, body);
	else if (h->kind == WIRE_USE)
		on_use(k, body);
}

static void on_closed(struct relay *w, uint32_t command)
{
	struct keeper *k = w->ctx;

	keeper_command_stream(k, command);
	if (k->single && k->stands && !k->commands && !k->done)
		keeper_end(k, CAUSE_NONE);
}

/* The container is at its end, or what says so can't be believed. */
static void on_wire_ended(struct relay *w, const char *why)
{
	struct keeper *k = w->ctx;
	struct container_state state = {0};
	struct json *inspected = NULL;
	struct cay_error err;

	if (container_inspect(k->docker, k->id.text, &inspected, &err) == 0)
		container_state_read(inspected, &state);
	json_free(inspected);
	if (state.oom_killed) {
		keeper_end(k, CAUSE_MEMORY);
		return;
	}
	if (!k->stands) {
		const char *words = w->n_words ? w->words : state.error;

		w->words[w->n_words] = '\0';
		make_harmless(w->words);
		(void)cay_fail(&err, CAY_E_ENGINE, 0, "the container ended before it was ready%s%s",
			       *words ? ": " : "", words);
		cay_error_mend(&err);
		(void)cay_hint(&err,
			       "cay-guest must be able to run in it: the image is of another "
			       "architecture, or the engine has other files than this machine");
		fail_island(k, &err);
		return;
	}
	(void)why;
	keeper_end(k, CAUSE_ERROR);
}

static const struct relay_events events = {on_said, on_closed, on_wire_ended};

static int freeze(struct keeper *k, bool on, struct cay_error *err)
{
	int r = on ? container_pause(k->docker, &k->id, err)
		   : container_unpause(k->docker, &k->id, err);

	if (r < 0)
		return -1;
	k->frozen = on;
	/* What was to end meanwhile. */
	for (struct keeper_command *c = k->commands; c && !on; c = c->next)
		if (c->cause != CAUSE_NONE && !c->ended)
			keeper_command_kill(c, c->cause);
	return 0;
}

static void ask_use(struct keeper *k, uint32_t command)
{
	if (k->frozen) { /* PID 1 is, too: what was known last */
		report_use(k, command);
		return;
	}
	if (k->n_asked < KEEPER_ASKED_MAX)
		k->asked[k->n_asked++] = command;
	(void)relay_say(&k->wire, WIRE_ASK_USE, 0, NULL, 0, NULL, 0);
}

static int do_command(struct keeper *k, const struct service_request *q, size_t len, int fds[3],
		      struct cay_error *err)
{
	const struct plan *p = (const struct plan *)(q + 1);

	if (k->single || q->command == 0 || keeper_command_find(k, q->command))
		return cay_fail(err, CAY_E_INVALID, 0, "command %u can't be started", q->command);
	if (!k->stands)
		return cay_fail(err, CAY_E_CONFLICT, 0, "the island does not stand yet");
	if (k->frozen)
		return cay_fail(err, CAY_E_CONFLICT, 0, "the island is paused");
	if (plan_check(p, len - sizeof(*q), err) < 0)
		return -1;
	if (!plan_fits_command(k->plan, p))
		return cay_fail(err, CAY_E_INVALID, 0, "the command's plan is not this island's");
	return keeper_command_start(k, q, q->command, p, fds, err);
}

static void do_kill(struct keeper *k, const struct service_request *q)
{
	enum cause cause = q->cause <= CAUSE_ERROR ? (enum cause)q->cause : CAUSE_CANCELLED;
	struct keeper_command *c = keeper_command_find(k, k->single ? KEEPER_SINGLE : q->command);

	if (k->single && c)
		keeper_command_kill(c, cause);
	else if (q->command == 0 || (k->single && !k->stands))
		keeper_end(k, cause);
	else if (c)
		keeper_command_kill(c, cause);
}

static int obey(struct keeper *k, const struct service_request *q, size_t len, int fds[3],
		struct cay_error *err)
{
	switch (q->kind) {
	case SERVICE_COMMAND:
		return do_command(k, q, len, fds, err);
	case SERVICE_KILL:
		do_kill(k, q);
		return 0;
	case SERVICE_INTERRUPT:
		if (keeper_command_find(k, q->command) && !k->frozen)
			(void)relay_say(&k->wire, WIRE_INTERRUPT, q->command, NULL, 0, NULL, 0);
		return 0;
	case SERVICE_FREEZE:
	case SERVICE_THAW:
		if (freeze(k, q->kind == SERVICE_FREEZE, err) < 0)
			return -1;
		break;
	case SERVICE_USAGE:
		break;
	default:
		return cay_fail(err, CAY_E_INVALID, 0, "not a request");
	}
	ask_use(k, q->command);
	return 0;
}

static uint64_t room[SERVICE_PACKET_MAX / sizeof(uint64_t) + 1];

/* A request, into room; its length, 0 where the asker is gone. */
static size_t take_request(struct keeper *k, int fds[REQUEST_FDS])
{
	size_t n_fds;
	ssize_t n = msg_recv(k->asker.fd, room, sizeof(room), fds, REQUEST_FDS, &n_fds);

	return n < (ssize_t)sizeof(struct service_request) ? 0 : (size_t)n;
}

static void on_request(struct loop_fd *f, uint32_t ready _unused_)
{
	struct keeper *k = f->ctx;
	const struct service_request *q = (const struct service_request *)room;
	int fds[REQUEST_FDS] = {-1, -1, -1};
	size_t len = take_request(k, fds);
	struct cay_error err;

	if (len == 0)
		keeper_end(k, CAUSE_CANCELLED);
	else if (obey(k, q, len, fds, &err) < 0)
		report_failure(k, q->command, &err);
	for (int n = 0; n < REQUEST_FDS; n++)
		fd_closep(&fds[n]);
}

/* It was started, and PID 1 says nothing: it hangs, or its engine does. */
static void on_setup(struct loop_timer *t)
{
	struct keeper *k = t->ctx;
	struct cay_error err;

	(void)cay_fail(&err, CAY_E_ENGINE, 0, "the container was not ready in %u s",
		       SETUP_MS / 1000u);
	fail_island(k, &err);
}

/* The request that it is all about: RUN or MAKE. */
static int begin(struct keeper *k, struct cay_error *err)
{
	struct service_request q;
	size_t len = take_request(k, k->held_fds);
	int r;

	memcpy(&q, room, sizeof(q));
	if (len == 0 || (q.kind != SERVICE_RUN && q.kind != SERVICE_MAKE))
		return -2;
	k->held = q;
	k->number = q.island;
	k->single = q.kind == SERVICE_RUN;
	k->own = q.flags & FLAG_OWN;
	r = plan_check((const struct plan *)((const char *)room + sizeof(q)), len - sizeof(q), err);
	if (r == 0) {
		k->plan = malloc(len - sizeof(q));
		if (!k->plan)
			r = cay_fail(err, CAY_E_INTERNAL, ENOMEM, "make a container");
	}
	if (r == 0 && k->plan) {
		memcpy(k->plan, (const char *)room + sizeof(q), len - sizeof(q));
		r = keeper_make(k, err);
	}
	if (r == 0 && !k->stands)
		(void)loop_after(k->loop, &k->setup, SETUP_MS);
	return r;
}

static void keeper_done(struct keeper *k)
{
	if (k->loop)
		loop_cancel(k->loop, &k->setup);
	while (k->commands)
		keeper_command_free(k->commands);
	relay_done(&k->wire);
	docker_stream_done(&k->stream);
	docker_free(k->docker);
	loop_free(k->loop);
	free(k->plan);
}

int keeper_serve(int sock, const struct keeper_config *config)
{
	static struct keeper k;
	struct cay_error err;
	int r;

	k = (struct keeper){
		.config = config,
		.asker = {.fd = sock, .ready = on_request, .ctx = &k},
		.stream = DOCKER_STREAM,
		.wire = {.events = &events, .ctx = &k},
		.status = -1,
		.held_fds = {-1, -1, -1},
		.setup = {.fire = on_setup, .ctx = &k},
		.loop = loop_new(),
	};
	title_set("cay: keeper");
	(void)signal(SIGPIPE, SIG_IGN);
	if (!k.loop)
		return 125;
	r = begin(&k, &err);
	if (r == -1) {
		k.failed = true;
		k.error = err;
	}
	if (r == 0 && !k.done)
		r = loop_add(k.loop, &k.asker, EPOLLIN) < 0 || loop_run(k.loop) < 0 ? -1 : 0;
	/* Pipes end before the end is told. */
	relay_done(&k.wire);
	drop_held(&k);
	if (r != -2 && keeper_remove(&k, &err) < 0 && !k.failed) {
		k.failed = true;
		k.error = err;
	}
	if (r != -2)
		report_end(&k);
	keeper_done(&k);
	return 0;
}
