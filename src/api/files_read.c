/*
 * A file out. Its length is said before its bytes come, so what it has is what it had
 * then: one that grows is cut there, one that shrinks breaks the answer off.
 */
#include "api/files.h"
#include "api/files_op.h"
#include "api/workspace.h"
#include "base/parse.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define BYTES "application/octet-stream"

struct reading {
	struct file_op op;
	unsigned flags; /* of the agent's */
	bool head, ranged;
	bool suffix; /* of which the size must be known first: asked for by a call of its own */
	bool begun, sizeless;
	uint64_t first, count; /* of the range */
	uint64_t size, left;
};

/* One range is; more of them, or what is none, is as if nothing was said (RFC 9110, 14.2). */
static bool read_range(struct reading *r, const char *header)
{
	char text[48], *dash;
	uint64_t first, last;

	if (!header || strncmp(header, "bytes=", 6) != 0 || strlen(header + 6) >= sizeof(text))
		return false;
	memcpy(text, header + 6, strlen(header + 6) + 1);
	dash = strchr(text, '-');
	if (!dash)
		return false;
	*dash++ = '\0';
	if (!*text) {
		r->suffix = parse_u64(dash, 1, INT64_MAX, &r->count) == 0;
		return r->suffix;
	}
	if (parse_u64(text, 0, INT64_MAX, &first) < 0 ||
	    (*dash && parse_u64(dash, first, INT64_MAX, &last) < 0))
		return false;
	r->first = first;
	r->count = *dash ? last - first + 1 : AGENT_TO_END;
	return true;
}

static void set_headers(struct reading *r, const struct agent_file *file)
{
	time_t seconds = (time_t)(file->mtime_ns / 1000000000);
	char text[80];
	struct tm tm;

	(void)snprintf(text, sizeof(text), "%04o", file->mode & 07777);
	exchange_header(r->op.x, "X-Cay-Mode", text);
	exchange_header(r->op.x, "X-Content-Type-Options", "nosniff");
	exchange_header(r->op.x, "Accept-Ranges", "bytes");
	if (gmtime_r(&seconds, &tm) &&
	    strftime(text, sizeof(text), "%a, %d %b %Y %H:%M:%S GMT", &tm) > 0)
		exchange_header(r->op.x, "Last-Modified", text);
	if (r->ranged) {
		(void)snprintf(text, sizeof(text), "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64,
			       r->first, r->first + r->left - 1, r->size);
		exchange_header(r->op.x, "Content-Range", text);
	}
}

static void out_of_range(struct reading *r)
{
	struct cay_error err;
	char text[48];

	(void)cay_fail(&err, CAY_E_INVALID, 0, "the file has %" PRIu64 " bytes: none in that range",
		       r->size);
	(void)snprintf(text, sizeof(text), "bytes */%" PRIu64, r->size);
	file_op_over(&r->op);
	exchange_header(r->op.x, "Content-Range", text);
	exchange_fail_as(r->op.x, 416, &err);
}

static void finish(struct reading *r)
{
	file_op_over(&r->op);
	exchange_end(r->op.x);
}

static void on_entry(void *ctx, const struct agent_file *file)
{
	struct reading *r = ctx;

	r->size = file->size;
	if (r->suffix && !r->ranged)
		return; /* to go on when this call is done */
	if (r->ranged && r->first >= r->size) {
		out_of_range(r);
		return;
	}
	r->left = r->size - r->first;
	if (r->ranged && r->count < r->left)
		r->left = r->count;
	set_headers(r, file);
	/* Files of /proc say they have no bytes, and bring some: see on_data(). */
	r->sizeless = r->size == 0;
	if (r->sizeless && !r->head)
		return;
	r->begun = true;
	exchange_begin_sized(r->op.x, r->ranged ? 206 : 200, BYTES, r->left);
	if (r->head)
		finish(r);
}

static void on_data(void *ctx, const void *data, size_t len)
{
	struct reading *r = ctx;

	if (!r->begun) {
		r->begun = true;
		exchange_begin(r->op.x, 200, BYTES);
	}
	if (!r->sizeless) {
		len = len < r->left ? len : (size_t)r->left;
		r->left -= len;
	}
	(void)exchange_write(r->op.x, data, len);
	if (!r->sizeless && r->left == 0)
		finish(r);
	else
		file_op_pace(&r->op);
}

static void read_suffix(struct reading *r)
{
	struct agent_ask ask = {.op = AGENT_READ, .flags = r->flags, .path = r->op.path};
	struct cay_error err;

	r->ranged = true;
	r->first = r->size > r->count ? r->size - r->count : 0;
	r->count = AGENT_TO_END;
	ask.offset = r->first;
	ask.length = r->head ? 0 : AGENT_TO_END;
	if (file_op_again(&r->op, &ask, &err) < 0)
		file_op_fail(&r->op, &err);
}

static void on_done(void *ctx, const struct agent_end *end _unused_, const struct cay_error *err)
{
	struct reading *r = ctx;
	struct cay_error shrunk;

	if (!err && r->suffix && !r->ranged) {
		read_suffix(r);
		return;
	}
	if (!err && !r->sizeless) {
		(void)cay_fail(&shrunk, CAY_E_CONFLICT, 0, "%s became shorter while it was read",
			       r->op.path);
		err = &shrunk;
	}
	if (err)
		file_op_fail(&r->op, err);
	else if (r->begun)
		finish(r);
	else {
		file_op_over(&r->op);
		exchange_respond(r->op.x, 200, BYTES, NULL, 0);
	}
}

static const struct exchange_events events = {.on_drain = file_op_drain, .on_close = file_op_close};
static const struct agent_sink sink = {.entry = on_entry, .data = on_data, .done = on_done};
static const struct file_kind reading_kind = {
	.size = sizeof(struct reading), .events = &events, .sink = &sink};

static void read_with(struct exchange *x, unsigned flags)
{
	const struct request *q = exchange_request(x);
	struct agent_ask ask = {.op = AGENT_READ, .flags = flags, .length = AGENT_TO_END};
	struct reading asked = {.flags = flags, .head = strcmp(q->method, "HEAD") == 0}, *r;
	struct cay_error err;
	bool ranged;

	if (file_ask_query(&ask, q, 0, &err) < 0) {
		exchange_fail(x, &err);
		return;
	}
	/* If-Range compares with a validator, of which we give out none that is strong. */
	ranged = !request_header(q, "if-range") && read_range(&asked, request_header(q, "range"));
	if (ranged && !asked.suffix) {
		asked.ranged = true;
		ask.offset = asked.first;
		ask.length = asked.count;
	}
	if (asked.head || asked.suffix)
		ask.length = 0;
	r = file_op_begin(x, &reading_kind, &ask);
	if (!r)
		return;
	asked.op = r->op;
	*r = asked;
}

static void file_read(struct exchange *x)
{
	read_with(x, 0);
}

static void changed_read(struct exchange *x)
{
	read_with(x, AGENT_LAYER);
}

const struct route route_workspace_read = {.method = "GET",
					   .pattern = "/v1/sandboxes/{id}/workspace/files",
					   .handle = changed_read,
					   .name = "workspace.read"};
const struct route route_file_read = {.method = "GET",
				      .pattern = "/v1/sandboxes/{id}/files",
				      .handle = file_read,
				      .name = "file.read"};
