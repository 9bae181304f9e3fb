/*
 * Trees as archives, out and in, in constant memory. The agent sends and takes entries
 * and their bytes; session/tar.h makes an archive of them, and entries of an archive.
 */
#include "api/files.h"
#include "api/files_op.h"
#include "api/sandboxes.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/loop.h"
#include "session/tar.h"

#include <errno.h>
#include <string.h>

/*
 * Out
 */

/* libarchive fills up a file that came too short, at once: more than this is not waited for. */
#define FILL_MAX ((uint64_t)4 << 20)

static const struct {
	const char *name, *type;
	enum tar_filter filter;
} formats[] = {
	{"tar", "application/x-tar", TAR_PLAIN},
	{"tar.gz", "application/gzip", TAR_GZIP},
	{"tar.zst", "application/zstd", TAR_ZSTD},
};

struct packing {
	struct file_op op;
	struct tar_writer *tar;
	size_t format;
	uint64_t file_left; /* of the file that is coming */
	bool begun;
};

static void pack_release(struct file_op *op)
{
	tar_writer_free(((struct packing *)op)->tar);
}

/* The answer begins with the first bytes: until then an error is still one that can be told. */
static void pack_out(void *ctx, const void *data, size_t len)
{
	struct packing *p = ctx;

	if (!p->begun)
		exchange_begin(p->op.x, 200, formats[p->format].type);
	p->begun = true;
	(void)exchange_write(p->op.x, data, len);
}

static bool pack_filled(struct packing *p)
{
	struct cay_error err;

	if (p->file_left <= FILL_MAX)
		return true;
	(void)cay_fail(&err, CAY_E_CONFLICT, 0, "a file became shorter while it was packed");
	file_op_fail(&p->op, &err);
	return false;
}

static void pack_entry(void *ctx, const struct agent_file *file)
{
	struct packing *p = ctx;
	struct cay_error err;

	if (!pack_filled(p))
		return;
	p->file_left = file->type == AGENT_FILE ? file->size : 0;
	if (tar_writer_entry(p->tar, file, &err) < 0)
		file_op_fail(&p->op, &err);
	else
		file_op_pace(&p->op);
}

static void pack_data(void *ctx, const void *data, size_t len)
{
	struct packing *p = ctx;
	struct cay_error err;

	p->file_left -= len < p->file_left ? len : p->file_left;
	if (tar_writer_data(p->tar, data, len, &err) < 0)
		file_op_fail(&p->op, &err);
	else
		file_op_pace(&p->op);
}

static void pack_done(void *ctx, const struct agent_end *end _unused_, const struct cay_error *err)
{
	struct packing *p = ctx;
	struct cay_error failed;

	if (!err && !pack_filled(p))
		return;
	if (!err && tar_writer_end(p->tar, &failed) < 0)
		err = &failed;
	if (err) {
		file_op_fail(&p->op, err);
		return;
	}
	file_op_over(&p->op);
	exchange_end(p->op.x);
}

static const struct exchange_events pack_events = {.on_drain = file_op_drain,
						   .on_close = file_op_close};
static const struct agent_sink pack_sink = {
	.entry = pack_entry, .data = pack_data, .done = pack_done};
static const struct file_kind packing_kind = {.size = sizeof(struct packing),
					      .events = &pack_events,
					      .sink = &pack_sink,
					      .release = pack_release};

static int find_format(const struct request *q, size_t *ret, struct cay_error *err)
{
	const char *name = request_query(q, "format");

	for (size_t n = 0; n < ARRAY_LEN(formats); n++)
		if (!name || strcmp(name, formats[n].name) == 0) {
			*ret = n;
			return 0;
		}
	return cay_fail(err, CAY_E_INVALID, 0, "format: '%.16s' is none of tar, tar.gz, tar.zst",
			name);
}

int file_pack_check(struct exchange *x, struct cay_error *err)
{
	const struct request *q = exchange_request(x);
	struct agent_ask ask = {.op = AGENT_TREE_OUT};
	size_t format;

	return file_ask_query(&ask, q, PARAM_FORMAT | PARAM_TOP, err) < 0 ||
			       find_format(q, &format, err) < 0
		       ? -1
		       : 0;
}

void file_pack_of(struct exchange *x, struct sandbox *s, bool ends)
{
	const struct request *q = exchange_request(x);
	struct agent_ask ask = {.op = AGENT_TREE_OUT, .length = AGENT_TO_END};
	struct packing *p;
	struct cay_error err;
	size_t format = 0;

	if (file_ask_query(&ask, q, PARAM_FORMAT | PARAM_TOP, &err) < 0 ||
	    find_format(q, &format, &err) < 0) {
		exchange_fail(x, &err);
		return;
	}
	p = file_op_begin_on(x, s, ends, &packing_kind, &ask);
	if (!p && ends)
		sandbox_end(s, "it was made for one call");
	if (!p)
		return;
	p->format = format;
	p->tar = tar_writer_new(formats[format].filter, pack_out, p, &err);
	if (!p->tar)
		file_op_fail(&p->op, &err);
}

static void file_pack(struct exchange *x)
{
	struct cay_error err;
	struct sandbox *s;

	if (file_pack_check(x, &err) < 0) {
		exchange_fail(x, &err);
		return;
	}
	s = sandbox_of(x);
	if (s)
		file_pack_of(x, s, false);
}

/*
 * In
 */

/*
 * What is unpacked before others get their turn: a few bytes of an archive may stand for
 * a thousand times as many, so it is fed little by little and looked at by the clock.
 */
#define FEED_BYTES 4096
#define TURN_MS    5.0

struct unpacking {
	struct file_op op;
	struct tar_reader *tar;
	struct buf input; /* of the body */
	size_t input_at;
	bool whole, over;   /* the body; the archive */
	bool held;          /* the agent had no room for the item */
	enum tar_step step; /* what the item is */
	struct tar_item item;
	struct loop_timer turn;
};

static void unpack_release(struct file_op *op)
{
	struct unpacking *u = (struct unpacking *)op;

	loop_cancel(exchange_loop(op->x), &u->turn);
	tar_reader_free(u->tar);
	buf_done(&u->input);
}

static void unpack_fail(struct unpacking *u, const struct cay_error *err)
{
	u->over = true;
	file_op_fail(&u->op, err);
}

/* The item to the agent. False: it has no room now, or it is no use. */
static bool pass_on(struct unpacking *u)
{
	struct cay_error err;
	size_t sent;
	int r;

	if (u->step == TAR_ENTRY) {
		r = agent_call_entry(u->op.call, &u->item.file);
		u->held = r == -EAGAIN;
		if (r == -EINVAL) {
			(void)cay_fail(&err, CAY_E_INVALID, 0,
				       "the archive has a name that can't be");
			unpack_fail(u, &err);
		}
		return r == 0;
	}
	sent = agent_call_send(u->op.call, u->item.data, u->item.len);
	u->item.data = (const char *)u->item.data + sent;
	u->item.len -= sent;
	u->held = u->item.len > 0;
	return !u->held;
}

/* The next few bytes of the body. False: they have not come yet. */
static bool feed(struct unpacking *u)
{
	size_t len = size_min(u->input.len - u->input_at, FEED_BYTES);

	if (len > 0) {
		tar_reader_feed(u->tar, u->input.data + u->input_at, len);
		u->input_at += len;
		return true;
	}
	buf_done(&u->input);
	u->input_at = 0;
	if (u->whole)
		tar_reader_feed(u->tar, "", 0);
	else
		exchange_resume(u->op.x);
	return u->whole;
}

/* One step of the archive. False: there is nothing more to do now. */
static bool unpack_step(struct unpacking *u)
{
	struct cay_error err;
	int step = tar_reader_next(u->tar, &u->item, &err);

	switch (step) {
	case TAR_NEEDS_INPUT:
		return feed(u);
	case TAR_ENTRY:
	case TAR_DATA:
		u->step = (enum tar_step)step;
		return pass_on(u);
	case TAR_END:
		u->over = true;
		/* Whatever is behind the archive's end is read, and left. */
		exchange_resume(u->op.x);
		if (u->whole)
			agent_call_end(u->op.call);
		return false;
	default:
		unpack_fail(u, &err);
		return false;
	}
}

static void unpack(struct unpacking *u)
{
	uint64_t start = clock_now_ns();
	struct cay_error err;

	if (u->held && !pass_on(u))
		return;
	while (u->op.call && !u->over && unpack_step(u)) {
		if (clock_ms_since(start) < TURN_MS)
			continue;
		if (loop_after(exchange_loop(u->op.x), &u->turn, 0) < 0) {
			(void)cay_fail(&err, CAY_E_INTERNAL, ENOMEM, "unpack");
			unpack_fail(u, &err);
		}
		return;
	}
}

static void on_turn(struct loop_timer *t)
{
	struct unpacking *u = t->ctx;

	if (u->op.call && !u->over && !u->held)
		unpack(u);
}

static void unpack_body(struct exchange *x, const char *data, size_t len)
{
	struct unpacking *u = exchange_ctx(x);
	struct cay_error err;

	if (!u->op.call || u->over)
		return;
	exchange_pause(x);
	if (buf_append(&u->input, data, len) < 0) {
		(void)cay_fail(&err, CAY_E_INTERNAL, ENOMEM, "keep a piece of the archive");
		unpack_fail(u, &err);
		return;
	}
	unpack(u);
}

static void unpack_body_end(struct exchange *x)
{
	struct unpacking *u = exchange_ctx(x);

	u->whole = true;
	if (u->op.call && u->over)
		agent_call_end(u->op.call);
	else if (u->op.call && !u->held && u->turn.place == 0)
		unpack(u);
}

static void unpack_room(void *ctx)
{
	struct unpacking *u = ctx;

	if (u->held)
		unpack(u);
}

static void unpack_done(void *ctx, const struct agent_end *end, const struct cay_error *err)
{
	_cleanup_(json_freep) struct json *j = NULL;
	struct unpacking *u = ctx;

	if (err) {
		unpack_fail(u, err);
		return;
	}
	j = json_new_object();
	json_set_int(j, "entries", end->entries);
	json_set_int(j, "bytes", (int64_t)end->bytes);
	json_set_int(j, "skipped", end->skipped);
	file_op_answer(&u->op, 200, j);
}

static const struct exchange_events unpack_events = {
	.on_body = unpack_body, .on_body_end = unpack_body_end, .on_close = file_op_close};
static const struct agent_sink unpack_sink = {.room = unpack_room, .done = unpack_done};
static const struct file_kind unpacking_kind = {.size = sizeof(struct unpacking),
						.events = &unpack_events,
						.sink = &unpack_sink,
						.release = unpack_release};

static void file_unpack(struct exchange *x)
{
	struct agent_ask ask = {.op = AGENT_TREE_IN};
	struct unpacking *u;
	struct cay_error err;

	if (file_ask_query(&ask, exchange_request(x), PARAM_TOP, &err) < 0) {
		exchange_fail(x, &err);
		return;
	}
	u = file_op_begin(x, &unpacking_kind, &ask);
	if (!u)
		return;
	u->input = BUF((size_t)1 << 20);
	u->turn = (struct loop_timer){.fire = on_turn, .ctx = u};
	u->tar = tar_reader_new(&err);
	if (!u->tar)
		unpack_fail(u, &err);
}

const struct route route_file_pack = {.method = "GET",
				      .pattern = "/v1/sandboxes/{id}/files/archive",
				      .handle = file_pack,
				      .flags = ROUTE_CANCELS_ON_FIN,
				      .name = "file.pack"};
const struct route route_file_unpack = {.method = "POST",
					.pattern = "/v1/sandboxes/{id}/files/archive",
					.handle = file_unpack,
					.flags = ROUTE_STREAMS_BODY,
					.max_body = (size_t)1 << 62,
					.name = "file.unpack"};
