/*
 * What happens below a directory, as events, until the client goes away or the
 * sandbox ends. The answer's head says that nothing is missed from there on.
 */
#include "api/files.h"
#include "api/files_op.h"
#include "base/json.h"

static void on_entry(void *ctx, const struct agent_file *file _unused_)
{
	struct file_op *op = ctx;

	exchange_events_begin(op->x);
}

static void on_news(void *ctx, const struct agent_news *news)
{
	static const char *const changes[AGENT_CHANGES] = {
		[AGENT_CREATED] = "created", [AGENT_MODIFIED] = "modified",
		[AGENT_DELETED] = "deleted", [AGENT_MOVED] = "moved",
		[AGENT_LOST] = "lost",
	};
	_cleanup_(json_freep) struct json *j = json_new_object();
	struct file_op *op = ctx;

	json_set_str(j, "change", changes[news->change]);
	file_set_below(j, "path", op->path, news->path);
	if (news->change == AGENT_MOVED)
		file_set_below(j, "to", op->path, news->to);
	json_set_str(j, "type", news->is_dir ? "directory" : "file");
	(void)exchange_event(op->x, "change", j);
	/* What it can't tell it calls lost: nothing piles up. */
	file_op_pace(op);
}

static void on_done(void *ctx, const struct agent_end *end _unused_, const struct cay_error *err)
{
	_cleanup_(json_freep) struct json *j = NULL;
	struct file_op *op = ctx;
	bool alive = sandbox_is_alive(op->sandbox->state);

	if (err && exchange_status(op->x) == 0) {
		file_op_fail(op, err);
		return;
	}
	j = json_new_object();
	json_set_str(j, "reason",
		     !alive ? "the sandbox has ended"
		     : err  ? err->text
			    : "the directory is gone");
	file_op_over(op);
	(void)exchange_event(op->x, "end", j);
	exchange_end(op->x);
}

static const struct exchange_events events = {.on_drain = file_op_drain, .on_close = file_op_close};
static const struct agent_sink sink = {.entry = on_entry, .news = on_news, .done = on_done};
static const struct file_kind watching_kind = {
	.size = sizeof(struct file_op), .events = &events, .sink = &sink};

static void file_watch(struct exchange *x)
{
	struct agent_ask ask = {.op = AGENT_WATCH};
	struct cay_error err;

	if (file_ask_query(&ask, exchange_request(x), PARAM_RECURSIVE | PARAM_TOP, &err) < 0)
		exchange_fail(x, &err);
	else
		(void)file_op_begin(x, &watching_kind, &ask);
}

const struct route route_file_watch = {.method = "GET",
				       .pattern = "/v1/sandboxes/{id}/files/watch",
				       .handle = file_watch,
				       .flags = ROUTE_CANCELS_ON_FIN,
				       .name = "file.watch"};
