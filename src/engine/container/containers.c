#include "engine/container/containers.h"

#include "base/attr.h"
#include "base/json.h"
#include "base/text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define PATH_MAX_BYTES ((size_t)16 << 10)
#define STREAM_IDLE_MS 60000 /* without a byte */

/* Values deep in answers, which may be anything */

static const struct json *at(const struct json *j, const char *key)
{
	return j ? json_get(j, key) : NULL;
}

static uint64_t number_at(const struct json *j, const char *key)
{
	const struct json *v = at(j, key);
	int64_t n = v ? json_int(v) : 0;

	return n > 0 ? (uint64_t)n : 0;
}

static bool true_at(const struct json *j, const char *key)
{
	const struct json *v = at(j, key);

	return v && json_bool(v);
}

static const char *text_at(const struct json *j, const char *key)
{
	const struct json *v = at(j, key);

	return v ? json_str(v) : NULL;
}

/* Nothing but what can stand in a path: ids are hexadecimal. */
static int take_id(const struct json *j, const char *key, struct container_id *ret)
{
	const char *text = text_at(j, key);
	size_t len = text ? strlen(text) : 0;

	if (len == 0 || len >= sizeof(ret->text) || strspn(text, "0123456789abcdef") != len)
		return -1;
	memcpy(ret->text, text, len + 1);
	return 0;
}

static int no_id(const struct docker *d, const char *what, struct cay_error *err)
{
	return cay_fail(err, CAY_E_ENGINE, 0, "%s: %s answers without an id", what,
			docker_name(docker_place(d)->engine));
}

static int too_long(const char *what, int why, struct cay_error *err)
{
	return cay_fail(err, why == -EFBIG ? CAY_E_INVALID : CAY_E_INTERNAL, -why, "%s", what);
}

/* A call about one container whose answer is nothing but that it was done. */
static int simple(struct docker *d, const char *method, const struct container_id *id,
		  const char *rest, const char *what, struct cay_error *err)
{
	char path[160];
	const struct docker_ask ask = {.method = method, .path = path, .what = what};

	(void)snprintf(path, sizeof(path), "/containers/%s%s", id->text, rest);
	return docker_json(d, &ask, NULL, err);
}

int container_create(struct docker *d, const char *name, const struct json *config,
		     struct container_id *ret, struct cay_error *err)
{
	_cleanup_(buf_done) struct buf path = BUF(PATH_MAX_BYTES);
	_cleanup_(json_freep) struct json *j = NULL;
	struct docker_ask ask = {.method = "POST", .json = config, .what = "create a container"};
	int r = buf_append_str(&path, "/containers/create");

	if (r == 0 && name)
		r = buf_append_str(&path, "?name=");
	if (r == 0 && name)
		r = text_append_encoded(&path, name);
	if (r < 0)
		return too_long(ask.what, r, err);
	ask.path = buf_str(&path);
	if (docker_json(d, &ask, &j, err) < 0) {
		/* Nothing else that is asked of could be missing. */
		if (err->code == CAY_E_NOT_FOUND)
			err->code = CAY_E_IMAGE;
		return -1;
	}
	return take_id(j, "Id", ret) < 0 ? no_id(d, ask.what, err) : 0;
}

int container_attach(struct docker *d, const struct container_id *id, struct docker_stream *ret,
		     struct cay_error *err)
{
	char path[160];
	const struct docker_ask ask = {
		.method = "POST", .path = path, .what = "attach to a container"};

	(void)snprintf(path, sizeof(path),
		       "/containers/%s/attach?stream=1&stdin=1&stdout=1&stderr=1", id->text);
	return docker_hijack(d, &ask, ret, err);
}

int container_wait(struct docker *d, const struct container_id *id, struct docker_later *ret,
		   struct cay_error *err)
{
	char path[160];
	const struct docker_ask ask = {
		.method = "POST", .path = path, .what = "wait for the end of a container"};

	(void)snprintf(path, sizeof(path), "/containers/%s/wait?condition=next-exit", id->text);
	return docker_begin(d, &ask, ret, err);
}

int container_wait_code(const struct json *answer)
{
	const struct json *code = at(answer, "StatusCode");
	int64_t n = code && json_kind(code) == JSON_KIND_INT ? json_int(code) : -1;

	return n >= 0 && n <= 255 ? (int)n : -1;
}

int container_start(struct docker *d, const struct container_id *id, struct cay_error *err)
{
	return simple(d, "POST", id, "/start", "start a container", err);
}

int container_kill(struct docker *d, const struct container_id *id, int signal,
		   struct cay_error *err)
{
	struct container_state state;
	struct cay_error ignored;
	struct json *j;
	char rest[32];

	(void)snprintf(rest, sizeof(rest), "/kill?signal=%d", signal);
	if (simple(d, "POST", id, rest, "kill a container", err) == 0 ||
	    err->code == CAY_E_NOT_FOUND || err->code == CAY_E_CONFLICT)
		return 0;
	/* Podman 4 answers 500 where it does not run any more. */
	if (err->code != CAY_E_ENGINE || container_inspect(d, id->text, &j, &ignored) < 0)
		return -1;
	container_state_read(j, &state);
	json_free(j);
	return state.running ? -1 : 0;
}

int container_remove(struct docker *d, const struct container_id *id, struct cay_error *err)
{
	if (simple(d, "DELETE", id, "?force=1&v=1", "remove a container", err) == 0 ||
	    err->code == CAY_E_NOT_FOUND || err->code == CAY_E_CONFLICT)
		return 0;
	return -1;
}

int container_pause(struct docker *d, const struct container_id *id, struct cay_error *err)
{
	return simple(d, "POST", id, "/pause", "pause a container", err);
}

int container_unpause(struct docker *d, const struct container_id *id, struct cay_error *err)
{
	return simple(d, "POST", id, "/unpause", "resume a container", err);
}

int container_inspect(struct docker *d, const char *id, struct json **ret, struct cay_error *err)
{
	_cleanup_(buf_done) struct buf path = BUF(PATH_MAX_BYTES);
	struct docker_ask ask = {.method = "GET", .what = "look at a container"};
	int r = buf_append_str(&path, "/containers/");

	if (r == 0)
		r = text_append_encoded(&path, id);
	if (r == 0)
		r = buf_append_str(&path, "/json");
	if (r < 0)
		return too_long(ask.what, r, err);
	ask.path = buf_str(&path);
	return docker_json(d, &ask, ret, err);
}

void container_state_read(const struct json *inspected, struct container_state *ret)
{
	const struct json *state = at(inspected, "State");
	const char *error = text_at(state, "Error");

	*ret = (struct container_state){
		.running = true_at(state, "Running"),
		.paused = true_at(state, "Paused"),
		.oom_killed = true_at(state, "OOMKilled"),
		.pid = (int)(number_at(state, "Pid") & INT32_MAX),
		.exit_code = (int)(number_at(state, "ExitCode") & 255),
	};
	if (error)
		(void)snprintf(ret->error, sizeof(ret->error), "%s", error);
	text_flatten(ret->error, strlen(ret->error));
	ret->error[text_utf8_whole(ret->error, strlen(ret->error))] = '\0';
}

int container_usage(struct docker *d, const struct container_id *id, struct container_usage *ret,
		    struct cay_error *err)
{
	_cleanup_(json_freep) struct json *j = NULL;
	const struct json *memory;
	char path[160];
	const struct docker_ask ask = {
		.method = "GET", .path = path, .what = "ask what a container uses"};

	(void)snprintf(path, sizeof(path), "/containers/%s/stats?stream=false&one-shot=true",
		       id->text);
	if (docker_json(d, &ask, &j, err) < 0)
		return -1;
	memory = at(j, "memory_stats");
	*ret = (struct container_usage){
		.cpu_us = number_at(at(at(j, "cpu_stats"), "cpu_usage"), "total_usage") / 1000,
		.memory_bytes = number_at(memory, "usage"),
		.memory_peak_bytes = number_at(memory, "max_usage"),
		.processes = number_at(at(j, "pids_stats"), "current"),
	};
	return 0;
}

/* Appends "filters={"label":["…"]}", encoded. 0 or -errno. */
static int append_filter(struct buf *path, const char *label, bool only_containers)
{
	_cleanup_(json_freep) struct json *filters = json_new_object();
	_cleanup_(buf_done) struct buf text = BUF(PATH_MAX_BYTES);
	struct json *labels = json_new_array(), *types = json_new_array();
	int r;

	json_add_str(labels, label);
	json_set(filters, "label", labels);
	json_add_str(types, "container");
	if (only_containers)
		json_set(filters, "type", types);
	else
		json_free(types);
	r = json_text(filters, &text);
	if (r == 0)
		text.data[--text.len] = '\0'; /* the line's end */
	if (r == 0)
		r = buf_append_str(path, "filters=");
	return r < 0 ? r : text_append_encoded(path, buf_str(&text));
}

int container_list(struct docker *d, const char *label, container_list_fn *fn, void *ctx,
		   struct cay_error *err)
{
	_cleanup_(buf_done) struct buf path = BUF(PATH_MAX_BYTES);
	_cleanup_(json_freep) struct json *list = NULL;
	struct docker_ask ask = {.method = "GET", .what = "list containers"};
	int r = buf_append_str(&path, "/containers/json?all=1&");

	if (r == 0)
		r = append_filter(&path, label, false);
	if (r < 0)
		return too_long(ask.what, r, err);
	ask.path = buf_str(&path);
	r = docker_json(d, &ask, &list, err);
	for (size_t i = 0; r == 0 && list && i < json_len(list); i++) {
		const struct json *c = json_at(list, i);
		const char *state = text_at(c, "State");
		struct container_listed listed = {
			.labels = at(c, "Labels"),
			.names = at(c, "Names"),
			.running = state && strcasecmp(state, "running") == 0,
		};

		r = take_id(c, "Id", &listed.id) < 0 ? no_id(d, ask.what, err)
						     : fn(ctx, &listed, err);
	}
	return r;
}

int container_exec(struct docker *d, const struct container_id *id, const struct json *config,
		   struct container_id *ret_exec, struct cay_error *err)
{
	_cleanup_(json_freep) struct json *j = NULL;
	char path[160];
	const struct docker_ask ask = {.method = "POST",
				       .path = path,
				       .json = config,
				       .what = "make a command in a container"};

	(void)snprintf(path, sizeof(path), "/containers/%s/exec", id->text);
	if (docker_json(d, &ask, &j, err) < 0)
		return -1;
	return take_id(j, "Id", ret_exec) < 0 ? no_id(d, ask.what, err) : 0;
}

int container_exec_start(struct docker *d, const struct container_id *exec, bool terminal,
			 struct docker_stream *ret, struct cay_error *err)
{
	_cleanup_(json_freep) struct json *body = json_new_object();
	char path[160];
	const struct docker_ask ask = {.method = "POST",
				       .path = path,
				       .json = body,
				       .what = "start a command in a container"};

	json_set_bool(body, "Detach", false);
	json_set_bool(body, "Tty", terminal);
	(void)snprintf(path, sizeof(path), "/exec/%s/start", exec->text);
	return docker_hijack(d, &ask, ret, err);
}

int container_exec_inspect(struct docker *d, const struct container_id *exec, int *ret_code,
			   struct cay_error *err)
{
	_cleanup_(json_freep) struct json *j = NULL;
	char path[160];
	const struct docker_ask ask = {
		.method = "GET", .path = path, .what = "look at a command in a container"};

	(void)snprintf(path, sizeof(path), "/exec/%s/json", exec->text);
	if (docker_json(d, &ask, &j, err) < 0)
		return -1;
	*ret_code = true_at(j, "Running") ? -1 : (int)(number_at(j, "ExitCode") & 255);
	return 0;
}

static int archive_path(struct buf *path, const struct container_id *id, const char *in,
			const char *what, struct cay_error *err)
{
	int r = buf_printf(path, "/containers/%s/archive?path=", id->text);

	if (r == 0)
		r = text_append_encoded(path, in);
	return r < 0 ? too_long(what, r, err) : 0;
}

int container_get(struct docker *d, const struct container_id *id, const char *path,
		  docker_bytes_fn *fn, void *ctx, struct cay_error *err)
{
	_cleanup_(buf_done) struct buf text = BUF(PATH_MAX_BYTES);
	struct docker_ask ask = {
		.method = "GET", .timeout_ms = STREAM_IDLE_MS, .what = "read files of a container"};

	if (archive_path(&text, id, path, ask.what, err) < 0)
		return -1;
	ask.path = buf_str(&text);
	return docker_bytes(d, &ask, fn, ctx, err);
}

int container_put(struct docker *d, const struct container_id *id, const char *path, int from_fd,
		  struct cay_error *err)
{
	_cleanup_(buf_done) struct buf text = BUF(PATH_MAX_BYTES);
	struct docker_ask ask = {.method = "PUT",
				 .streamed = true,
				 .from_fd = from_fd,
				 .timeout_ms = STREAM_IDLE_MS,
				 .what = "write files of a container"};

	if (archive_path(&text, id, path, ask.what, err) < 0)
		return -1;
	ask.path = buf_str(&text);
	return docker_json(d, &ask, NULL, err);
}

int container_events(struct docker *d, const char *label, int64_t since_s, docker_object_fn *fn,
		     void *ctx, struct cay_error *err)
{
	_cleanup_(buf_done) struct buf path = BUF(PATH_MAX_BYTES);
	struct docker_ask ask = {
		.method = "GET", .timeout_ms = -1, .what = "hear what happens to containers"};
	int r = buf_append_str(&path, "/events?");

	if (r == 0 && since_s > 0)
		r = buf_printf(&path, "since=%" PRId64 "&", since_s);
	if (r == 0)
		r = append_filter(&path, label, true);
	if (r < 0)
		return too_long(ask.what, r, err);
	ask.path = buf_str(&path);
	return docker_objects(d, &ask, fn, ctx, err);
}
