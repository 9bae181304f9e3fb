/*
 * What a sandbox has changed in a workspace that is an overlay.
 */
#include "api/workspace.h"

#include "api/files_op.h"
#include "base/json.h"

#include <string.h>

/* What an answer's names may take together. */
#define DIFF_BYTES_MAX ((size_t)4 << 20)

struct diffing {
	struct file_op op;
	struct json *changes;
	size_t bytes; /* of names */
};

static void diff_release(struct file_op *op)
{
	json_free(((struct diffing *)op)->changes);
}

static void diff_answer(struct diffing *d, bool truncated, uint32_t skipped)
{
	const struct sandbox *s = d->op.sandbox;
	_cleanup_(json_freep) struct json *j = json_new_object();

	json_set_str(j, "source", s->body->spec.workspace.source);
	json_set_int(j, "since", s->created_ms);
	json_set(j, "changes", d->changes ? take_ptr(&d->changes) : json_new_array());
	json_set_bool(j, "truncated", truncated);
	json_set_int(j, "unreadable", skipped);
	file_op_answer(&d->op, 200, j);
}

static void diff_entry(void *ctx, const struct agent_file *file)
{
	static const char *const names[AGENT_CHANGES] = {
		[AGENT_CREATED] = "added",
		[AGENT_MODIFIED] = "changed",
		[AGENT_DELETED] = "deleted",
	};
	struct diffing *d = ctx;
	struct json *entry = file_json(NULL, file);

	json_set_str(entry, "change", names[file->change]);
	if (!d->changes)
		d->changes = json_new_array();
	json_add(d->changes, entry);
	d->bytes += strlen(file->path) + strlen(file->target);
	if (d->bytes > DIFF_BYTES_MAX)
		diff_answer(d, true, 0);
}

static void diff_done(void *ctx, const struct agent_end *end, const struct cay_error *err)
{
	struct diffing *d = ctx;

	if (err)
		file_op_fail(&d->op, err);
	else
		diff_answer(d, end->truncated != 0, end->skipped);
}

static const struct exchange_events events = {.on_close = file_op_close};
static const struct agent_sink sink = {.entry = diff_entry, .done = diff_done};
static const struct file_kind kind = {
	.size = sizeof(struct diffing), .events = &events, .sink = &sink, .release = diff_release};

static void workspace_diff(struct exchange *x)
{
	const struct request *q = exchange_request(x);
	const struct agent_ask ask = {.op = AGENT_DIFF, .path = ".", .count = AGENT_LIST_MAX};
	struct cay_error err;

	if (q->n_query == 0) {
		(void)file_op_begin(x, &kind, &ask);
		return;
	}
	(void)cay_fail(&err, CAY_E_INVALID, 0, "unknown query parameter '%.64s'", q->query[0].name);
	exchange_fail(x, &err);
}

const struct route route_workspace_diff = {.method = "GET",
					   .pattern = "/v1/sandboxes/{id}/workspace/diff",
					   .handle = workspace_diff,
					   .name = "workspace.diff"};
