#include "api/contexts.h"

#include "api/exchange.h"
#include "api/sandboxes.h"
#include "base/attr.h"
#include "base/json.h"
#include "session/sandbox.h"
#include "spec/fields.h"

#include <stdlib.h>

static struct context *context_of(struct exchange *x, struct sandbox **ret)
{
	struct sandbox *s = sandbox_of(x);
	struct context *c = NULL;
	struct cay_error err;

	if (!s)
		return NULL;
	exchange_set_target(x, s->id);
	c = context_find(&s->contexts, request_param(exchange_request(x), "name"), &err);
	if (!c)
		exchange_fail(x, &err);
	*ret = s;
	return c;
}

static void respond(struct exchange *x, int status, const struct context *c)
{
	_cleanup_(json_freep) struct json *j = context_json(c);

	exchange_respond_json(x, status, j);
}

static void list(struct exchange *x)
{
	struct sandbox *s = sandbox_of(x);
	_cleanup_(json_freep) struct json *j = s ? contexts_json(&s->contexts) : NULL;

	if (s)
		exchange_respond_json(x, 200, j);
}

static void get(struct exchange *x)
{
	struct sandbox *s;
	const struct context *c = context_of(x, &s);

	if (c)
		respond(x, 200, c);
}

static void remove_one(struct exchange *x)
{
	_cleanup_(json_freep) struct json *j = json_new_object();
	struct sandbox *s;
	struct context *c = context_of(x, &s);

	if (!c)
		return;
	json_set_str(j, "name", request_param(exchange_request(x), "name"));
	json_set_str(j, "state", "gone");
	context_remove(c);
	sandbox_touch(s);
	exchange_respond_json(x, 200, j);
}

static void interrupt(struct exchange *x)
{
	struct sandbox *s;
	struct context *c = context_of(x, &s);
	struct cay_error err;

	if (!c)
		return;
	if (context_interrupt(c, &err) < 0)
		exchange_fail(x, &err);
	else
		respond(x, 202, c);
}

static void restart(struct exchange *x)
{
	struct sandbox *s;
	struct context *c = context_of(x, &s);
	struct cay_error err;

	if (!c)
		return;
	if (sandbox_restart_context(s, c, &err) < 0)
		exchange_fail(x, &err);
	else
		respond(x, 200, c);
}

struct answer {
	char *text;
	size_t len;
};

static int set_text(struct reader *r, const struct json *v, struct cay_error *err)
{
	struct answer *a = r->into;

	return field_bytes(v, &a->text, &a->len, err);
}

static const struct field input_fields[] = {{"text", TAKES_STR, set_text, 0}};

static int read_answer(const struct request *q, struct answer *ret, struct cay_error *err)
{
	_cleanup_(json_freep) struct json *j = NULL;
	struct reader r = {.into = ret};

	if (fields_parse(q->body, q->body_len, CHANNEL_INPUT_MAX, &j, err) < 0)
		return cay_wrap(err, "the request");
	if (fields_read(&r, input_fields, ARRAY_LEN(input_fields), j, err) < 0)
		return reader_fail(&r, err);
	return ret->text ? 0 : cay_fail(err, CAY_E_INVALID, 0, "text: is not there");
}

static void input(struct exchange *x)
{
	struct answer a = {0};
	struct sandbox *s;
	struct context *c;
	struct cay_error err;

	if (read_answer(exchange_request(x), &a, &err) < 0) {
		exchange_fail(x, &err);
	} else if ((c = context_of(x, &s))) {
		if (context_answer(c, a.text, a.len, &err) < 0)
			exchange_fail(x, &err);
		else
			respond(x, 200, c);
	}
	free(a.text);
}

const struct route route_context_list = {
	.method = "GET",
	.pattern = "/v1/sandboxes/{id}/contexts",
	.handle = list,
	.name = "context.list",
};
const struct route route_context_get = {
	.method = "GET",
	.pattern = "/v1/sandboxes/{id}/contexts/{name}",
	.handle = get,
	.name = "context.get",
};
const struct route route_context_delete = {
	.method = "DELETE",
	.pattern = "/v1/sandboxes/{id}/contexts/{name}",
	.handle = remove_one,
	.name = "context.delete",
};
const struct route route_context_interrupt = {
	.method = "POST",
	.pattern = "/v1/sandboxes/{id}/contexts/{name}/interrupt",
	.handle = interrupt,
	.name = "context.interrupt",
};
const struct route route_context_restart = {
	.method = "POST",
	.pattern = "/v1/sandboxes/{id}/contexts/{name}/restart",
	.handle = restart,
	.name = "context.restart",
};
const struct route route_context_input = {.method = "POST",
					  .pattern = "/v1/sandboxes/{id}/contexts/{name}/input",
					  .handle = input,
					  .max_body = CHANNEL_INPUT_MAX,
					  .name = "context.input"};
