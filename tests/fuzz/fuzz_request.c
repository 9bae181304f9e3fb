/* Bodies of requests: the first byte says of what. */
#include "fuzz.h"

#include "core/limit.h"
#include "spec/request.h"

static void check_path(const char *path)
{
	CHECK(island_path_ok(path) && path[0] == '/' && !strstr(path, "/../") &&
	      !strstr(path, "//") && !strstr(path, "/./"));
}

static void check_spec(const struct spec *s)
{
	CHECK(s->n_mounts <= SPEC_MOUNTS_MAX && s->get.len <= SPEC_TRANSFERS_MAX);
	CHECK(s->put.len == 0 && !s->file && !s->stdin_file);
	for (size_t i = 0; i < s->n_mounts; i++) {
		CHECK(s->mounts[i].source[0] == '/');
		check_path(s->mounts[i].target);
	}
	for (size_t i = 0; i < s->get.len; i++)
		CHECK(s->get.items[i].from[0] && s->get.items[i].from[0] != '/');
	for (size_t i = 0; i < s->env.len; i++)
		CHECK(strchr(s->env.items[i], '=') > s->env.items[i]);
	for (size_t i = 0; i < n_limit_rows; i++) {
		uint64_t v = limit_get(&s->limits, &limit_rows[i]);

		CHECK(v == 0 || (v >= limit_rows[i].min && v <= limit_rows[i].max));
	}
	CHECK(!s->workspace.target || s->workspace.source[0] == '/');
	if (s->workdir)
		check_path(s->workdir);
}

static void check_body(const struct request_body *q, enum request_place place)
{
	const struct spec *s = &q->spec;

	check_spec(s);
	for (size_t i = 0; i < q->n_files; i++) {
		check_path(q->files[i].path);
		CHECK(q->files[i].data && q->files[i].data[q->files[i].size] == '\0');
	}
	CHECK(!q->has_stdin || q->stdin_data);
	CHECK(!q->name || request_name_ok(q->name));
	if (place == REQUEST_SANDBOX) {
		CHECK(!s->code && s->args.len == 0 && !q->background && !q->has_stdin);
		return;
	}
	CHECK(!q->name && !q->persistent && q->ttl_ms == 0 && q->idle_timeout_ms == 0);
	CHECK(s->kind == SPEC_CODE ? s->code && s->language : s->args.len > 0 && !s->language);
	if (place == REQUEST_COMMAND)
		CHECK(s->n_mounts == 0 && !s->workspace.source && s->limits.memory_bytes == 0 &&
		      !q->dry_run && !s->allow_degraded && s->engine == ENGINE_AUTO);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const enum request_place places[] = {REQUEST_RUN, REQUEST_SANDBOX, REQUEST_COMMAND};
	struct input in = INPUT(data, size);
	enum request_place place = places[input_u8(&in) % ARRAY_LEN(places)];
	struct request_body *q = malloc(sizeof(*q));
	struct cay_error err = {0};

	CHECK(q);
	if (request_parse(q, place, (const char *)in.at, in.len, &err) == 0)
		check_body(q, place);
	else
		CHECK(err.code > CAY_OK && err.code < CAY_CODES && err.text[0]);
	request_body_done(q);
	free(q);
	return 0;
}
