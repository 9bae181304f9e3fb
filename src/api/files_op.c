#include "api/files_op.h"

#include "api/sandboxes.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/parse.h"
#include "base/text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What an agent may be silent for. User code can stop it: nobody waits for that for ever. */
#define IDLE_MS 60000

#define LIMIT_DEFAULT 1000

/*
 * The query
 */

static const struct {
	const char *name;
	enum file_param param;
	unsigned flag; /* of the agent's; 0: no switch */
} params_known[] = {
	{"mode", PARAM_MODE, 0},
	{"append", PARAM_APPEND, AGENT_APPEND},
	{"overwrite", PARAM_OVERWRITE, AGENT_OVERWRITE},
	{"recursive", PARAM_RECURSIVE, AGENT_RECURSIVE},
	{"follow", PARAM_FOLLOW, AGENT_FOLLOW},
	{"depth", PARAM_DEPTH, 0},
	{"limit", PARAM_LIMIT, 0},
	{"cursor", PARAM_CURSOR, 0},
	{"format", PARAM_FORMAT, 0},
};

int file_parse_mode(const char *text, unsigned *ret, struct cay_error *err)
{
	size_t len = strlen(text);
	unsigned mode = 0;

	if (len < 3 || len > 4 || strspn(text, "01234567") != len || (len == 4 && text[0] != '0')) {
		(void)cay_fail(err, CAY_E_INVALID, 0, "mode: '%.16s' is none", text);
		return cay_hint(err, "it is 3 octal digits: 644, 0755");
	}
	for (; *text; text++)
		mode = mode << 3 | (unsigned)(*text - '0');
	*ret = mode;
	return 0;
}

static int parse_switch(struct agent_ask *ask, const struct query_item *item, unsigned flag,
			struct cay_error *err)
{
	int on = 1;

	if (*item->value && parse_bool(item->value, &on) < 0)
		return cay_fail(err, CAY_E_INVALID, 0, "%s: '%.16s' is neither 0 nor 1", item->name,
				item->value);
	ask->flags = on ? ask->flags | flag : ask->flags & ~flag;
	return 0;
}

static int parse_number(const struct query_item *item, unsigned max, unsigned *ret,
			struct cay_error *err)
{
	uint64_t v;

	if (parse_u64(item->value, 1, max, &v) < 0)
		return cay_fail(err, CAY_E_INVALID, 0, "%s: '%.32s' is no number from 1 to %u",
				item->name, item->value, max);
	*ret = (unsigned)v;
	return 0;
}

static int parse_param(struct agent_ask *ask, const struct query_item *item, size_t n,
		       struct cay_error *err)
{
	if (params_known[n].flag)
		return parse_switch(ask, item, params_known[n].flag, err);
	switch ((int)params_known[n].param) {
	case PARAM_MODE:
		return file_parse_mode(item->value, &ask->mode, err);
	case PARAM_DEPTH:
		return parse_number(item, TREE_DEPTH_MAX, &ask->depth, err);
	case PARAM_LIMIT:
		return parse_number(item, AGENT_LIST_MAX, &ask->count, err);
	default:
		return 0;
	}
}

static int take_item(struct agent_ask *ask, const struct query_item *item, unsigned params,
		     struct cay_error *err)
{
	if (strcmp(item->name, "path") == 0) {
		ask->path = item->value;
		return 0;
	}
	for (size_t n = 0; n < ARRAY_LEN(params_known); n++)
		if ((params & params_known[n].param) &&
		    strcmp(item->name, params_known[n].name) == 0)
			return parse_param(ask, item, n, err);
	return cay_fail(err, CAY_E_INVALID, 0, "unknown query parameter '%.64s'", item->name);
}

int file_ask_query(struct agent_ask *ask, const struct request *q, unsigned params,
		   struct cay_error *err)
{
	ask->mode = AGENT_MODE_KEEP;
	ask->depth = 1;
	ask->count = LIMIT_DEFAULT;
	for (size_t n = 0; n < q->n_query; n++)
		if (take_item(ask, &q->query[n], params, err) < 0)
			return -1;
	if (!ask->path && (params & PARAM_TOP))
		ask->path = ".";
	return ask->path ? 0 : cay_fail(err, CAY_E_INVALID, 0, "path: missing in the query");
}

/*
 * Life
 */

void *file_op_begin(struct exchange *x, const struct file_kind *kind, const struct agent_ask *ask)
{
	struct sandbox *s = sandbox_of(x);

	return s ? file_op_begin_on(x, s, false, kind, ask) : NULL;
}

void *file_op_begin_on(struct exchange *x, struct sandbox *s, bool ends,
		       const struct file_kind *kind, const struct agent_ask *ask)
{
	struct file_op *op = calloc(1, kind->size);
	struct cay_error err;

	if (!op) {
		(void)cay_fail(&err, CAY_E_INTERNAL, ENOMEM, "reach the sandbox's files");
		exchange_fail(x, &err);
		return NULL;
	}
	op->x = x;
	op->kind = kind;
	op->path = ask->path;
	op->sandbox = s;
	op->ends = ends;
	if (file_op_again(op, ask, &err) < 0) {
		free(op);
		exchange_fail(x, &err);
		return NULL;
	}
	exchange_watch(x, kind->events, op);
	return op;
}

int file_op_again(struct file_op *op, const struct agent_ask *ask, struct cay_error *err)
{
	struct agent_ask timed = *ask;
	struct agent_call *old = op->call;

	if (ask->op != AGENT_WATCH)
		timed.idle_ms = IDLE_MS;
	/* The old one holds the sandbox until the new one does. */
	op->call = sandbox_call(op->sandbox, &timed, op->kind->sink, op, err);
	if (old && !op->call)
		op->call = old;
	else if (old)
		sandbox_call_free(op->sandbox, old);
	return op->call == old ? -1 : 0;
}

void file_op_over(struct file_op *op)
{
	if (!op->call)
		return;
	/* It is still there while the call is. */
	if (op->ends)
		sandbox_end(op->sandbox, "it was made for one call");
	sandbox_call_free(op->sandbox, take_ptr(&op->call));
}

/* What the agent can't know: that there is no sandbox any more, and what else to ask for. */
static void mend(const struct file_op *op, struct cay_error *err)
{
	if (op->call && err->code == CAY_E_INTERNAL && !sandbox_is_alive(op->sandbox->state)) {
		(void)cay_fail(err, CAY_E_EXPIRED, 0, "the sandbox %s has ended", op->sandbox->id);
	} else if (err->sys_errno == EISDIR && err->code == CAY_E_INVALID) {
		err->code = CAY_E_CONFLICT;
		(void)cay_hint(err, "a directory is read by files/list and files/archive");
	}
}

void file_op_fail(struct file_op *op, const struct cay_error *err)
{
	struct cay_error mended = *err;

	mend(op, &mended);
	file_op_over(op);
	exchange_fail(op->x, &mended);
}

void file_op_answer(struct file_op *op, int status, const struct json *j)
{
	file_op_over(op);
	exchange_respond_json(op->x, status, j);
}

void file_op_pace(struct file_op *op)
{
	if (op->call && exchange_buffered(op->x) >= EXCHANGE_HIGH)
		agent_call_pause(op->call, true);
}

void file_op_drain(struct exchange *x)
{
	struct file_op *op = exchange_ctx(x);

	if (op->call)
		agent_call_pause(op->call, false);
}

void file_op_close(struct exchange *x, enum exchange_end how _unused_)
{
	struct file_op *op = exchange_ctx(x);

	file_op_over(op);
	if (op->kind->release)
		op->kind->release(op);
	free(op);
}

/*
 * Entries
 */

void file_set_path(struct json *j, const char *key, const char *path)
{
	_cleanup_(buf_done) struct buf base64 = BUF(4 * AGENT_PATH_MAX);
	char name[32];

	json_set_str(j, key, path);
	if (text_is_utf8(path, strlen(path)) || text_append_base64(&base64, path, strlen(path)) < 0)
		return;
	(void)snprintf(name, sizeof(name), "%s_base64", key);
	json_set_str(j, name, buf_str(&base64));
}

void file_set_below(struct json *j, const char *key, const char *dir, const char *path)
{
	_cleanup_(buf_done) struct buf whole = BUF(2 * AGENT_PATH_MAX + 2);
	size_t len = strlen(dir);

	while (len > 1 && dir[len - 1] == '/')
		len--;
	if (len == 1 && dir[0] == '.')
		len = 0;
	if (buf_append(&whole, dir, len) < 0 ||
	    (len > 0 && dir[len - 1] != '/' && *path && buf_append_str(&whole, "/") < 0) ||
	    buf_append_str(&whole, path) < 0)
		return;
	file_set_path(j, key, buf_str(&whole));
}

static const char *name_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

struct json *file_json(const char *dir, const struct agent_file *file)
{
	static const char *const types[AGENT_TYPES] = {
		[AGENT_FILE] = "file",      [AGENT_DIR] = "directory", [AGENT_LINK] = "symlink",
		[AGENT_HARD_LINK] = "file", [AGENT_FIFO] = "fifo",     [AGENT_SOCKET] = "socket",
		[AGENT_DEVICE] = "device",
	};
	struct json *j = json_new_object();
	char mode[8];

	(void)snprintf(mode, sizeof(mode), "%04o", file->mode & 07777);
	if (dir)
		file_set_below(j, "path", dir, file->path);
	else
		file_set_path(j, "path", file->path);
	file_set_path(j, "name", name_of(file->path));
	json_set_str(j, "type", types[file->type]);
	json_set_int(j, "size", (int64_t)file->size);
	json_set_str(j, "mode", mode);
	json_set_real(j, "mtime", (double)file->mtime_ns / 1e9);
	if (file->type == AGENT_LINK)
		file_set_path(j, "target", file->target);
	return j;
}
