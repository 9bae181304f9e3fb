#include "api/images.h"

#include "api/api.h"
#include "api/caller.h"
#include "api/exchange.h"
#include "api/inherit.h"
#include "base/attr.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/json.h"
#include "image/images.h"
#include "image/naming.h"
#include "image/order.h"
#include "spec/fields.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define BODY_MAX_BYTES 4096
#define LINE_MAX_BYTES (64u << 10)
#define READ_BYTES     4096

/* An order under way. */
struct image_work {
	struct exchange *x;
	struct image_order order;
	struct loop_fd pipe;
	struct buf line;
	bool events;
	bool ended; /* it has said how */
	int64_t code;
	struct cay_error err; /* the last that it told of */
};

static int find_dir(const struct exchange *x, char dir[PATH_MAX], struct cay_error *err)
{
	int r = images_dir(&api_of(x)->settings, dir);

	return r < 0 ? cay_fail(err, CAY_E_INTERNAL, -r, "find the image store") : 0;
}

static struct json *image_json(const struct image *image)
{
	struct json *j = NULL;

	(void)record_json(image, &j); /* noticed where it is written */
	return j;
}

/* Whether the caller might use it: others are none of its business. */
static bool is_callers(const struct settings *s, const struct image *image)
{
	struct cay_error err;

	return image_may_use(s, image->id, image, &err) == 0;
}

static int list_images(struct exchange *x, struct json **ret, struct cay_error *err)
{
	struct settings s = caller_settings(caller_of(x), &api_of(x)->settings);
	struct json *list;
	struct image **images;
	char dir[PATH_MAX];
	size_t n;

	if (find_dir(x, dir, err) < 0 || images_list(dir, &images, &n, NULL, err) < 0)
		return -1;
	*ret = json_new_object();
	list = json_new_array();
	for (size_t i = 0; i < n; i++)
		if (is_callers(&s, images[i]))
			json_add(list, image_json(images[i]));
	image_list_free(images, n);
	json_set(*ret, "images", list);
	return 0;
}

static int find_image(struct exchange *x, const char *text, struct json **ret,
		      struct cay_error *err)
{
	struct settings s = caller_settings(caller_of(x), &api_of(x)->settings);
	_cleanup_(image_freep) struct image *image = NULL;
	char dir[PATH_MAX], name[IMAGE_REF_SIZE];

	if (image_name_resolve(&s, text, name, err) < 0 || find_dir(x, dir, err) < 0 ||
	    images_find(dir, name, &image, err) < 0)
		return -1;
	/* Nor is a key told that there is one it may not see. */
	if (image_may_use(&s, name, image, err) < 0)
		return s.key ? images_fail_missing(name, err) : -1;
	*ret = image_json(image);
	return 0;
}

static void image_list(struct exchange *x)
{
	const char *name = request_query(exchange_request(x), "name");
	_cleanup_(json_freep) struct json *j = NULL;
	struct cay_error err;

	if ((name ? find_image(x, name, &j, &err) : list_images(x, &j, &err)) < 0)
		exchange_fail(x, &err);
	else
		exchange_respond_json(x, 200, j);
}

/* Orders */

static void work_free(struct image_work *w)
{
	struct loop *loop = exchange_loop(w->x);

	exchange_watch(w->x, NULL, NULL);
	loop_remove(loop, &w->pipe);
	fd_closep(&w->pipe.fd);
	buf_done(&w->line);
	free(w);
}

static void fail(struct image_work *w)
{
	_cleanup_(json_freep) struct json *j = NULL;
	struct exchange *x = w->x;

	if (!w->events) {
		exchange_fail(x, &w->err);
		return;
	}
	j = cay_error_json(&w->err, NULL);
	(void)exchange_event(x, "error", j);
	exchange_end(x);
}

static void succeed(struct image_work *w)
{
	_cleanup_(json_freep) struct json *j = NULL;
	struct exchange *x = w->x;

	if (w->order.kind == IMAGE_ORDER_RM) {
		exchange_respond(x, 204, NULL, NULL, 0);
		return;
	}
	if (find_image(x, w->order.name, &j, &w->err) < 0) {
		fail(w);
	} else if (w->events) {
		(void)exchange_event(x, "image", j);
		exchange_end(x);
	} else {
		exchange_respond_json(x, 200, j);
	}
}

static void finish(struct image_work *w)
{
	if (w->ended && w->code == 0) {
		succeed(w);
	} else {
		if (w->err.code == CAY_OK)
			(void)cay_fail(&w->err, CAY_E_ENGINE, 0, "%s: it was broken off",
				       w->order.name);
		fail(w);
	}
	work_free(w);
}

static enum cay_code code_of(const char *name)
{
	for (int c = CAY_E_INVALID; name && c < CAY_CODES; c++)
		if (strcmp(cay_code_name((enum cay_code)c), name) == 0)
			return (enum cay_code)c;
	return CAY_E_INTERNAL;
}

static void take_error(struct image_work *w, const struct json *e)
{
	const char *message = json_str(json_get(e, "message")),
		   *hint = json_str(json_get(e, "hint"));

	(void)cay_fail(&w->err, code_of(json_str(json_get(e, "code"))), 0, "%s",
		       message ? message : "it failed");
	if (hint && hint[0])
		(void)cay_hint(&w->err, "%s", hint);
}

static void take_line(struct image_work *w)
{
	_cleanup_(json_freep) struct json *j = NULL;
	struct json_fault fault;
	const struct json *ended;

	if (json_parse(buf_str(&w->line), w->line.len, LINE_MAX_BYTES, &j, &fault) < 0)
		return;
	ended = json_get(j, "ended");
	if (ended) {
		w->ended = true;
		w->code = json_int(ended);
	} else if (json_get(j, "error")) {
		take_error(w, json_get(j, "error"));
	} else if (w->events && exchange_buffered(w->x) < EXCHANGE_HIGH) {
		/* Who does not keep up misses steps, not the end. */
		(void)exchange_event(w->x, "progress", j);
	}
}

static void take_bytes(struct image_work *w, const char *data, size_t len)
{
	while (len > 0) {
		const char *newline = memchr(data, '\n', len);
		size_t n = newline ? (size_t)(newline - data) : len;

		/* One that is too long is nobody's. */
		if (buf_append(&w->line, data, n) < 0)
			buf_done(&w->line);
		if (newline) {
			take_line(w);
			buf_done(&w->line);
			n++;
		}
		data += n;
		len -= n;
	}
}

static void on_pipe(struct loop_fd *f, uint32_t events _unused_)
{
	struct image_work *w = f->ctx;
	char data[READ_BYTES];
	ssize_t n = read(f->fd, data, sizeof(data));

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n > 0)
		take_bytes(w, data, (size_t)n);
	else
		finish(w);
}

/* The work itself goes on: others may wait for the same image. */
static void on_close(struct exchange *x, enum exchange_end how _unused_)
{
	struct image_work *w = exchange_ctx(x);

	if (w)
		work_free(w);
}

static const struct exchange_events work_events = {.on_close = on_close};

static int send_order(struct image_work *w, struct cay_error *err)
{
	_cleanup_(fd_closep) int out = -1;
	int ends[2], r;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return cay_fail(err, CAY_E_INTERNAL, errno, "ask for an image");
	w->pipe.fd = ends[0];
	out = ends[1];
	r = fd_set_nonblock(w->pipe.fd, 1);
	if (r == 0)
		r = msg_send(API_FD_IMAGES, &w->order, sizeof(w->order), &out, 1);
	if (r == 0)
		r = loop_add(exchange_loop(w->x), &w->pipe, EPOLLIN);
	return r < 0 ? cay_fail(err, CAY_E_ENGINE, -r, "ask for an image") : 0;
}

static void begin(struct exchange *x, enum image_order_kind kind, const char *name,
		  const char *platform)
{
	struct image_work *w = calloc(1, sizeof(*w));
	struct cay_error err;
	int r;

	if (!w) {
		(void)cay_fail(&err, CAY_E_INTERNAL, ENOMEM, "ask for an image");
		exchange_fail(x, &err);
		return;
	}
	w->x = x;
	w->line = BUF(LINE_MAX_BYTES);
	w->pipe = (struct loop_fd){.fd = -1, .ready = on_pipe, .ctx = w};
	r = api_check_open(x, &err);
	if (r == 0)
		r = image_order_make(&api_of(x)->settings, kind, name, platform, &w->order, &err);
	if (r == 0) {
		exchange_set_target(x, w->order.name);
		r = send_order(w, &err);
	}
	if (r < 0) {
		work_free(w);
		exchange_fail(x, &err);
		return;
	}
	w->events = kind == IMAGE_ORDER_PULL && exchange_wants_events(x);
	exchange_watch(x, &work_events, w);
	if (w->events)
		exchange_events_begin(x);
}

struct pull_request {
	char *reference, *platform;
};

static int set_reference(struct reader *r, const struct json *v, struct cay_error *err)
{
	return field_copy(v, &((struct pull_request *)r->into)->reference, err);
}

static int set_platform(struct reader *r, const struct json *v, struct cay_error *err)
{
	return field_copy(v, &((struct pull_request *)r->into)->platform, err);
}

static const struct field pull_fields[] = {
	{"reference", TAKES_STR, set_reference, 0},
	{"platform", TAKES_STR, set_platform, 0},
};

static int read_pull(struct exchange *x, struct pull_request *ret, struct cay_error *err)
{
	const struct request *q = exchange_request(x);
	_cleanup_(json_freep) struct json *j = NULL;
	struct reader r = {.into = ret};

	if (fields_parse(q->body, q->body_len, BODY_MAX_BYTES, &j, err) < 0)
		return cay_wrap(err, "the request");
	if (fields_read(&r, pull_fields, ARRAY_LEN(pull_fields), j, err) < 0)
		return reader_fail(&r, err);
	return ret->reference ? 0 : cay_fail(err, CAY_E_INVALID, 0, "reference: is missing");
}

static void image_pull(struct exchange *x)
{
	struct pull_request p = {0};
	struct cay_error err;

	if (!caller_is_operator(x))
		return;
	if (read_pull(x, &p, &err) < 0)
		exchange_fail(x, &err);
	else
		begin(x, IMAGE_ORDER_PULL, p.reference, p.platform);
	free(p.reference);
	free(p.platform);
}

static void image_remove(struct exchange *x)
{
	if (caller_is_operator(x))
		begin(x, IMAGE_ORDER_RM, request_param(exchange_request(x), "name"), NULL);
}

const struct route route_image_list = {
	.method = "GET", .pattern = "/v1/images", .handle = image_list, .name = "image.list"};
const struct route route_image_pull = {
	.method = "POST",
	.pattern = "/v1/images",
	.handle = image_pull,
	.max_body = BODY_MAX_BYTES,
	.name = "image.pull",
};
const struct route route_image_remove = {.method = "DELETE",
					 .pattern = "/v1/images/{name}",
					 .handle = image_remove,
					 .name = "image.remove"};
