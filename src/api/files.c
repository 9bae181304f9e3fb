#include "api/files.h"

#include "api/files_op.h"
#include "base/json.h"
#include "base/text.h"
#include "spec/fields.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* What an answer's names may take together; there is a cursor for more. */
#define LIST_BYTES_MAX ((size_t)4 << 20)

#define BODY_MAX_BYTES 65536

static const struct exchange_events plain_events = {.on_close = file_op_close};

/*
 * What has one entry as its answer: stat, mkdir, move.
 */

struct looking {
	struct file_op op;
	struct json *entry;
	char *from, *to; /* of a body; the entry is that of the last */
};

static void look_release(struct file_op *op)
{
	struct looking *l = (struct looking *)op;

	json_free(l->entry);
	free(l->from);
	free(l->to);
}

static void look_entry(void *ctx, const struct agent_file *file)
{
	struct looking *l = ctx;
	struct agent_file named = *file;

	if (l->to)
		named.path = l->to;
	l->entry = file_json(NULL, &named);
}

static void look_done(void *ctx, const struct agent_end *end, const struct cay_error *err)
{
	struct looking *l = ctx;
	struct cay_error none;

	if (!err && !l->entry) {
		(void)cay_fail(&none, CAY_E_INTERNAL, 0, "the sandbox's files agent said nothing");
		err = &none;
	}
	if (err)
		file_op_fail(&l->op, err);
	else
		file_op_answer(&l->op, end->entries > 0 ? 201 : 200, l->entry);
}

static const struct agent_sink look_sink = {.entry = look_entry, .done = look_done};
static const struct file_kind looking_kind = {.size = sizeof(struct looking),
					      .events = &plain_events,
					      .sink = &look_sink,
					      .release = look_release};

static void file_stat(struct exchange *x)
{
	struct agent_ask ask = {.op = AGENT_STAT};
	struct cay_error err;

	if (file_ask_query(&ask, exchange_request(x), PARAM_FOLLOW, &err) < 0)
		exchange_fail(x, &err);
	else
		(void)file_op_begin(x, &looking_kind, &ask);
}

/*
 * The bodies of mkdir and move.
 */

struct body {
	char *path, *to;
	unsigned mode;
	bool overwrite;
};

enum { OF_MKDIR = 1, OF_MOVE = 2 };

static int set_path(struct reader *r, const struct json *v, struct cay_error *err)
{
	return field_copy(v, &((struct body *)r->into)->path, err);
}

static int set_to(struct reader *r, const struct json *v, struct cay_error *err)
{
	return field_copy(v, &((struct body *)r->into)->to, err);
}

static int set_mode(struct reader *r, const struct json *v, struct cay_error *err)
{
	const char *text = field_str(v, err);

	return text ? file_parse_mode(text, &((struct body *)r->into)->mode, err) : -1;
}

static int set_overwrite(struct reader *r, const struct json *v, struct cay_error *err _unused_)
{
	((struct body *)r->into)->overwrite = json_bool(v);
	return 0;
}

static const struct field fields[] = {
	{"path", TAKES_STR, set_path, OF_MKDIR},
	{"mode", TAKES_STR, set_mode, OF_MKDIR},
	{"from", TAKES_STR, set_path, OF_MOVE},
	{"to", TAKES_STR, set_to, OF_MOVE},
	{"overwrite", TAKES_BOOL, set_overwrite, OF_MOVE},
};

static int read_body(const struct request *q, unsigned place, struct body *ret,
		     struct cay_error *err)
{
	_cleanup_(json_freep) struct json *j = NULL;
	struct reader r = {.into = ret,
			   .place = place,
			   .place_is = place == OF_MOVE ? "a move" : "a directory"};

	if (q->n_query > 0)
		return cay_fail(err, CAY_E_INVALID, 0, "unknown query parameter '%.64s'",
				q->query[0].name);
	if (fields_parse(q->body, q->body_len, BODY_MAX_BYTES, &j, err) < 0)
		return -1;
	if (fields_read(&r, fields, ARRAY_LEN(fields), j, err) < 0)
		return reader_fail(&r, err);
	if (!ret->path || (place == OF_MOVE && !ret->to))
		return cay_fail(err, CAY_E_INVALID, 0, "%s: missing",
				place == OF_MKDIR ? "path"
				: ret->path       ? "to"
						  : "from");
	return 0;
}

static void body_done(struct body *b)
{
	free(b->path);
	free(b->to);
}

static void file_mkdir(struct exchange *x)
{
	_cleanup_(body_done) struct body b = {.mode = AGENT_MODE_KEEP};
	struct cay_error err;

	if (read_body(exchange_request(x), OF_MKDIR, &b, &err) < 0) {
		exchange_fail(x, &err);
		return;
	}
	const struct agent_ask ask = {
		.op = AGENT_MKDIR, .flags = AGENT_PARENTS, .path = b.path, .mode = b.mode};
	struct looking *l = file_op_begin(x, &looking_kind, &ask);

	if (l)
		l->op.path = l->from = take_ptr(&b.path);
}

static void file_move(struct exchange *x)
{
	_cleanup_(body_done) struct body b = {0};
	struct cay_error err;

	if (read_body(exchange_request(x), OF_MOVE, &b, &err) < 0) {
		exchange_fail(x, &err);
		return;
	}
	const struct agent_ask ask = {
		.op = AGENT_MOVE,
		.flags = AGENT_PARENTS | (b.overwrite ? AGENT_OVERWRITE : 0),
		.path = b.path,
		.arg = b.to,
	};
	struct looking *l = file_op_begin(x, &looking_kind, &ask);

	if (l) {
		l->op.path = l->from = take_ptr(&b.path);
		l->to = take_ptr(&b.to);
	}
}

/*
 * Remove
 */

static void remove_done(void *ctx, const struct agent_end *end, const struct cay_error *err)
{
	_cleanup_(json_freep) struct json *j = NULL;
	struct file_op *op = ctx;

	if (err) {
		file_op_fail(op, err);
		return;
	}
	j = json_new_object();
	json_set_int(j, "removed", end->entries);
	file_op_answer(op, 200, j);
}

static const struct agent_sink remove_sink = {.done = remove_done};
static const struct file_kind removing_kind = {
	.size = sizeof(struct file_op), .events = &plain_events, .sink = &remove_sink};

static void file_remove(struct exchange *x)
{
	struct agent_ask ask = {.op = AGENT_REMOVE};
	struct cay_error err;

	if (file_ask_query(&ask, exchange_request(x), PARAM_RECURSIVE, &err) < 0)
		exchange_fail(x, &err);
	else
		(void)file_op_begin(x, &removing_kind, &ask);
}

/*
 * List. A cursor is the path of the last entry, in base64 as URLs like it.
 */

struct listing {
	struct file_op op;
	struct json *entries;
	size_t bytes; /* of names */
	char *last;
};

static void list_release(struct file_op *op)
{
	struct listing *l = (struct listing *)op;

	json_free(l->entries);
	free(l->last);
}

static void swap_chars(char *s, const char *from, const char *to)
{
	for (; *s; s++)
		for (size_t n = 0; from[n]; n++)
			if (*s == from[n]) {
				*s = to[n];
				break;
			}
}

static void set_cursor(struct json *j, const char *last)
{
	_cleanup_(buf_done) struct buf text = BUF(2 * AGENT_PATH_MAX);

	if (!last || text_append_base64(&text, last, strlen(last)) < 0 || text.len == 0) {
		json_set_null(j, "cursor");
		return;
	}
	swap_chars(text.data, "+/", "-_");
	json_set_str(j, "cursor", text.data);
}

static int read_cursor(const char *cursor, struct buf *ret, struct cay_error *err)
{
	char *copy = strdup(cursor);
	int r = copy ? 0 : -ENOMEM;

	if (r == 0) {
		swap_chars(copy, "-_", "+/");
		r = text_decode_base64(ret, copy, strlen(copy));
	}
	free(copy);
	if (r == -ENOMEM)
		return cay_fail(err, CAY_E_INTERNAL, ENOMEM, "read the cursor");
	if (r < 0 || memchr(buf_str(ret), '\0', ret->len))
		return cay_fail(err, CAY_E_INVALID, 0, "cursor: it is none of ours");
	return 0;
}

static void list_answer(struct listing *l, bool more)
{
	_cleanup_(json_freep) struct json *j = json_new_object();
	struct cay_error err;

	if (more && !l->last) {
		(void)cay_fail(&err, CAY_E_INTERNAL, ENOMEM, "keep the list");
		file_op_fail(&l->op, &err);
		return;
	}
	json_set(j, "entries", l->entries ? take_ptr(&l->entries) : json_new_array());
	set_cursor(j, more ? l->last : NULL);
	file_op_answer(&l->op, 200, j);
}

static void list_entry(void *ctx, const struct agent_file *file)
{
	struct listing *l = ctx;

	if (!l->entries)
		l->entries = json_new_array();
	json_add(l->entries, file_json(l->op.path, file));
	free(l->last);
	l->last = strdup(file->path);
	l->bytes += strlen(file->path) + strlen(file->target);
	if (l->bytes > LIST_BYTES_MAX)
		list_answer(l, true);
}

static void list_done(void *ctx, const struct agent_end *end, const struct cay_error *err)
{
	struct listing *l = ctx;

	if (err)
		file_op_fail(&l->op, err);
	else
		list_answer(l, end->truncated != 0);
}

static const struct agent_sink list_sink = {.entry = list_entry, .done = list_done};
static const struct file_kind listing_kind = {.size = sizeof(struct listing),
					      .events = &plain_events,
					      .sink = &list_sink,
					      .release = list_release};

static void file_list(struct exchange *x)
{
	_cleanup_(buf_done) struct buf cursor = BUF(AGENT_PATH_MAX);
	const struct request *q = exchange_request(x);
	const char *text = request_query(q, "cursor");
	struct agent_ask ask = {.op = AGENT_LIST};
	struct cay_error err;
	int r = file_ask_query(&ask, q, PARAM_DEPTH | PARAM_LIMIT | PARAM_CURSOR | PARAM_TOP, &err);

	if (r == 0 && text && *text) {
		r = read_cursor(text, &cursor, &err);
		ask.arg = buf_str(&cursor);
	}
	if (r < 0)
		exchange_fail(x, &err);
	else
		(void)file_op_begin(x, &listing_kind, &ask);
}

const struct route route_file_remove = {.method = "DELETE",
					.pattern = "/v1/sandboxes/{id}/files",
					.handle = file_remove,
					.name = "file.remove"};
const struct route route_file_list = {.method = "GET",
				      .pattern = "/v1/sandboxes/{id}/files/list",
				      .handle = file_list,
				      .name = "file.list"};
const struct route route_file_stat = {.method = "GET",
				      .pattern = "/v1/sandboxes/{id}/files/stat",
				      .handle = file_stat,
				      .name = "file.stat"};
const struct route route_file_mkdir = {.method = "POST",
				       .pattern = "/v1/sandboxes/{id}/files/mkdir",
				       .handle = file_mkdir,
				       .name = "file.mkdir"};
const struct route route_file_move = {.method = "POST",
				      .pattern = "/v1/sandboxes/{id}/files/move",
				      .handle = file_move,
				      .name = "file.move"};
