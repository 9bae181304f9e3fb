/*
 * The files that a new sandbox begins with: its creator hears of it when they are there.
 */
#include "session/sandbox_impl.h"

#include "base/attr.h"
#include "session/files_put.h"

#include <errno.h>
#include <stdlib.h>

struct sandbox_put {
	struct sandbox *sandbox;
	struct files_put put;
	struct sandbox_wait *waits; /* who is told when it is done */
};

static void nth(const void *ctx, size_t n, struct agent_file *ret, const char **ret_data)
{
	const struct request_body *body = ctx;

	*ret = files_put_entry(&body->files[n]);
	*ret_data = body->files[n].data;
}

/* The sandbox may be gone behind it. */
static void finish(struct sandbox_put *p, const struct cay_error *err)
{
	struct sandbox *s = p->sandbox;
	struct agent_call *call = p->put.call;

	request_files_done(s->body);
	s->put = NULL;
	sandbox_answer_list(s, &p->waits, err);
	free(p);
	if (err && sandbox_is_alive(s->state))
		sandbox_end(s, "its files could not be put there");
	sandbox_call_free(s, call); /* it held the sandbox */
}

static void on_room(void *ctx)
{
	struct sandbox_put *p = ctx;
	struct cay_error err;

	if (files_put_send(&p->put, &err) < 0)
		finish(p, &err);
}

static void on_done(void *ctx, const struct agent_end *end _unused_, const struct cay_error *err)
{
	finish(ctx, err);
}

static const struct agent_sink sink = {.room = on_room, .done = on_done};

void sandbox_put_files(struct sandbox *s)
{
	const struct agent_ask ask = {.op = AGENT_TREE_IN, .path = "/", .idle_ms = FILES_IDLE_MS};
	struct sandbox_put *p = calloc(1, sizeof(*p));
	struct cay_error err;

	if (p)
		p->put.call = sandbox_call(s, &ask, &sink, p, &err);
	else
		(void)cay_fail(&err, CAY_E_INTERNAL, ENOMEM, "put the sandbox's files");
	if (!p || !p->put.call) {
		free(p);
		sandbox_answer_list(s, &s->waits, &err);
		sandbox_end(s, "its files could not be put there");
		return;
	}
	p->sandbox = s;
	p->put.count = s->body->n_files;
	p->put.nth = nth;
	p->put.ctx = s->body;
	/* Out of the way of what is asked of the launcher meanwhile. */
	p->waits = s->waits;
	s->waits = NULL;
	s->put = p;
	on_room(p);
}

void sandbox_put_free(struct sandbox *s)
{
	struct sandbox_put *p = s->put;

	if (!p)
		return;
	agent_call_free(p->put.call);
	sandbox_waits_free(p->waits);
	free(p);
	s->put = NULL;
}
