/*
 * What happens below a directory, as events, until the client goes away or the
 * sandbox ends. The answer's head says that nothing is missed from there on.
 */
#include "api/api.h"
#include "api/files.h"
#include "api/files_op.h"
#include "base/json.h"

struct file_watch {
	struct file_op op;
	struct api *api;
	struct file_watch *next; /* of the api's */
};

static void release(struct file_op *op)
{
	struct file_watch *w = (struct file_watch *)op;
	struct file_watch **at = &w->api->watches;

	while (*at && *at != w)
		at = &(*at)->next;
	if (*at)
		*at = w->next;
}

static void end(struct file_op *op, const char *reason)
{
	_cleanup_(json_freep) struct json *j = json_new_object();

	json_set_str(j, "reason", reason);
	file_op_over(op);
	(void)exchange_event(op->x, "end", j);
	exchange_end(op->x);
}

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

static void on_done(void *ctx, const struct agent_end *ended _unused_, const struct cay_error *err)
{
	struct file_op *op = ctx;

	if (err && exchange_status(op->x) == 0)
		file_op_fail(op, err);
	else if (!sandbox_is_alive(op->sandbox->state))
		end(op, "the sandbox has ended");
	else
		end(op, err ? err->text : "the directory is gone");
}

void files_watch_leave(struct api *api)
{
	for (struct file_watch *w = api->watches; w; w = w->next)
		if (w->op.call)
			end(&w->op, "the daemon is ending");
}

static const struct exchange_events events = {.on_drain = file_op_drain, .on_close = file_op_close};
static const struct agent_sink sink = {.entry = on_entry, .news = on_news, .done = on_done};
static const struct file_kind watching_kind = {
	.size = sizeof(struct file_watch), .events = &events, .sink = &sink, .release = release};

static void file_watch(struct exchange *x)
{
	struct agent_ask ask = {.op = AGENT_WATCH};
	struct file_watch *w;
	struct cay_error err;

	if (api_check_open(x, &err) < 0 ||
	    file_ask_query(&ask, exchange_request(x), PARAM_RECURSIVE | PARAM_TOP, &err) < 0) {
		exchange_fail(x, &err);
		return;
	}
	w = file_op_begin(x, &watching_kind, &ask);
	if (!w)
		return;
	w->api = api_of(x);
	w->next = w->api->watches;
	w->api->watches = w;
}

const struct route route_file_watch = {.method = "GET",
				       .pattern = "/v1/sandboxes/{id}/files/watch",
				       .handle = file_watch,
				       .flags = ROUTE_CANCELS_ON_FIN,
				       .name = "file.watch"};
