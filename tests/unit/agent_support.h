/*
 * agent_support.h: the files agent in a child, its client in a loop here. What a
 * call brought is in struct outcome. Behind cmocka.h.
 */
#pragma once

#include "base/attr.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/loop.h"
#include "engine/native/agent.h"
#include "session/agent_client.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define ENTRIES_MAX 12000

struct outcome {
	bool done, ok;
	struct cay_error err;
	struct agent_end end;
	struct buf data;
	struct agent_file *files; /* with strings of their own */
	size_t n_files;
	int status; /* of the agent */
};

struct session {
	struct loop *loop;
	struct agent_call *call;
	struct outcome *out;
	/* The body. */
	const char *body;
	size_t len, sent;
	size_t break_off; /* leave after so many bytes; 0: don't */
	bool discard;     /* count the bytes that come, no more */
	unsigned long long came;
};

static void outcome_done(struct outcome *o)
{
	for (size_t i = 0; i < o->n_files; i++) {
		free((void *)(uintptr_t)o->files[i].path);
		free((void *)(uintptr_t)o->files[i].target);
	}
	free(o->files);
	buf_done(&o->data);
	*o = (struct outcome){0};
}

static void on_entry(void *ctx, const struct agent_file *f)
{
	struct session *s = ctx;
	struct outcome *o = s->out;

	if (!o->files)
		o->files = calloc(ENTRIES_MAX, sizeof(*o->files));
	assert_non_null(o->files);
	assert_true(o->n_files < ENTRIES_MAX);
	o->files[o->n_files] = *f;
	o->files[o->n_files].path = strdup(f->path);
	o->files[o->n_files].target = strdup(f->target);
	o->n_files++;
}

static void on_data(void *ctx, const void *data, size_t len)
{
	struct session *s = ctx;

	s->came += len;
	if (!s->discard)
		assert_int_equal(buf_append(&s->out->data, data, len), 0);
}

static void on_room(void *ctx)
{
	struct session *s = ctx;
	size_t upto = s->break_off ? s->break_off : s->len;

	s->sent += agent_call_send(s->call, s->body + s->sent, upto - s->sent);
	if (s->sent < upto)
		return;
	if (s->break_off)
		loop_stop(s->loop);
	else
		agent_call_end(s->call);
}

static void on_done(void *ctx, const struct agent_end *end, const struct cay_error *err)
{
	struct session *s = ctx;

	assert_false(s->out->done);
	assert_true(!end != !err);
	s->out->done = true;
	s->out->ok = end != NULL;
	if (end)
		s->out->end = *end;
	else
		s->out->err = *err;
	loop_stop(s->loop);
}

static const struct agent_sink test_sink = {
	.entry = on_entry, .data = on_data, .room = on_room, .done = on_done};

/* Runs in the child before the agent: more confinement, say. */
static void (*agent_prepare)(void);

static pid_t start_agent(const char *base, int *ret_to, int *ret_from)
{
	int to[2], from[2];
	pid_t pid;

	assert_int_equal(pipe2(to, O_CLOEXEC), 0);
	assert_int_equal(pipe2(from, O_CLOEXEC), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		(void)close(to[1]);
		(void)close(from[0]);
		if (agent_prepare)
			agent_prepare();
		_exit(agent_serve(base, to[0], from[1]) < 0 ? 1 : 0);
	}
	(void)close(to[0]);
	(void)close(from[1]);
	*ret_to = to[1];
	*ret_from = from[0];
	return pid;
}

static void run_session(struct session *s, const char *base, const struct agent_ask *ask)
{
	struct cay_error err = {0};
	int to, from;
	pid_t pid = start_agent(base, &to, &from);

	s->loop = loop_new();
	assert_non_null(s->loop);
	s->call = agent_call_new(s->loop, to, from, ask, &test_sink, s, &err);
	if (!s->call) {
		s->out->done = true;
		s->out->err = err;
	} else {
		if (ask->op == AGENT_WRITE)
			on_room(s);
		assert_int_equal(loop_run(s->loop), 0);
		agent_call_free(s->call);
	}
	loop_free(s->loop);
	assert_int_equal(waitpid(pid, &s->out->status, 0), pid);
}

static inline void ask_agent(struct outcome *o, const char *base, struct agent_ask ask,
			     const void *body, size_t len)
{
	struct session s = {.out = o, .body = body, .len = len};

	outcome_done(o);
	o->data.max = 64 << 20;
	if (!ask.idle_ms)
		ask.idle_ms = 20000;
	run_session(&s, base, &ask);
	assert_true(o->done);
}
