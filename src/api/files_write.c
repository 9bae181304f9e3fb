/*
 * A file in, of any size: what the agent can't take yet is kept (one read's worth), and
 * the client's sending comes to a halt. The file has no name until it is whole, so a
 * client that goes away leaves nothing behind.
 */
#include "api/files.h"
#include "api/files_op.h"
#include "base/buf.h"
#include "base/json.h"

#include <errno.h>

#define HELD_MAX ((size_t)1 << 20)

struct writing {
	struct file_op op;
	struct buf held; /* what the agent had no room for */
	size_t held_at;
	bool whole; /* the body */
	struct json *entry;
};

static void release(struct file_op *op)
{
	struct writing *w = (struct writing *)op;

	buf_done(&w->held);
	json_free(w->entry);
}

static void on_body(struct exchange *x, const char *data, size_t len)
{
	struct writing *w = exchange_ctx(x);
	struct cay_error err;
	size_t sent;

	if (!w->op.call)
		return;
	sent = agent_call_send(w->op.call, data, len);
	if (sent == len || !w->op.call)
		return;
	exchange_pause(x);
	if (buf_append(&w->held, data + sent, len - sent) == 0)
		return;
	(void)cay_fail(&err, CAY_E_INTERNAL, ENOMEM, "keep a piece of the file");
	file_op_fail(&w->op, &err);
}

static void on_body_end(struct exchange *x)
{
	struct writing *w = exchange_ctx(x);

	w->whole = true;
	if (w->op.call && w->held.len == 0)
		agent_call_end(w->op.call);
}

static void on_room(void *ctx)
{
	struct writing *w = ctx;

	w->held_at +=
		agent_call_send(w->op.call, w->held.data + w->held_at, w->held.len - w->held_at);
	if (w->held_at < w->held.len || !w->op.call)
		return;
	buf_done(&w->held);
	w->held_at = 0;
	if (w->whole)
		agent_call_end(w->op.call);
	else
		exchange_resume(w->op.x);
}

static void on_entry(void *ctx, const struct agent_file *file)
{
	struct writing *w = ctx;

	w->entry = file_json(NULL, file);
}

static void on_done(void *ctx, const struct agent_end *end, const struct cay_error *err)
{
	struct writing *w = ctx;
	struct cay_error none;

	if (!err && !w->entry) {
		(void)cay_fail(&none, CAY_E_INTERNAL, 0, "the sandbox's files agent said nothing");
		err = &none;
	}
	if (err)
		file_op_fail(&w->op, err);
	else
		file_op_answer(&w->op, end->entries > 0 ? 201 : 200, w->entry);
}

static const struct exchange_events events = {
	.on_body = on_body, .on_body_end = on_body_end, .on_close = file_op_close};
static const struct agent_sink sink = {.entry = on_entry, .room = on_room, .done = on_done};
static const struct file_kind writing_kind = {
	.size = sizeof(struct writing), .events = &events, .sink = &sink, .release = release};

static void file_write(struct exchange *x)
{
	struct agent_ask ask = {.op = AGENT_WRITE, .flags = AGENT_PARENTS | AGENT_OVERWRITE};
	struct cay_error err;
	struct writing *w;

	if (file_ask_query(&ask, exchange_request(x), PARAM_MODE | PARAM_APPEND | PARAM_OVERWRITE,
			   &err) < 0) {
		exchange_fail(x, &err);
		return;
	}
	w = file_op_begin(x, &writing_kind, &ask);
	if (w)
		w->held = BUF(HELD_MAX);
}

const struct route route_file_write = {.method = "PUT",
				       .pattern = "/v1/sandboxes/{id}/files",
				       .handle = file_write,
				       .flags = ROUTE_STREAMS_BODY,
				       .max_body = (size_t)1 << 62,
				       .name = "file.write"};
