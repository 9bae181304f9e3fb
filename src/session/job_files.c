#include "session/job_impl.h"

#include "base/attr.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Whether its compiler has a directory of its own, which nobody else makes. */
static bool has_build_dir(const struct job *j)
{
	return j->order.body->spec.own[0] && j->order.plan->compile.len > 0;
}

/* The request's files, and behind them the build directory and the script. */
static size_t count(const struct job *j)
{
	return j->order.body->n_files + has_build_dir(j) + (j->order.script.path[0] ? 1 : 0);
}

bool job_has_files(const struct job *j)
{
	return count(j) > 0;
}

bool job_gets_new(const struct job *j)
{
	const struct transfers *get = &j->order.body->spec.get;

	for (size_t n = 0; n < get->len; n++)
		if (strcmp(get->items[n].from, "*") == 0)
			return true;
	return false;
}

/* An agent on the host has the workspace, and no root of its own. */
static const char *agent_path(const struct job *j, const char *path)
{
	if (j->order.engine->sandboxed)
		return path + 1; /* below "/" */
	return path + strlen(ISLAND_WORKSPACE "/");
}

static void nth(const void *ctx, size_t n, struct agent_file *ret, const char **ret_data)
{
	const struct job *j = ctx;
	const struct job_order *o = &j->order;

	if (n < o->body->n_files) {
		*ret = files_put_entry(&o->body->files[n]);
		ret->path = agent_path(j, o->body->files[n].path);
		*ret_data = o->body->files[n].data;
		return;
	}
	*ret = (struct agent_file){.target = ""};
	*ret_data = "";
	if (n == o->body->n_files && has_build_dir(j)) {
		ret->type = AGENT_DIR;
		ret->mode = 0700;
		ret->path = agent_path(j, j->build);
		return;
	}
	ret->type = AGENT_FILE;
	ret->mode = 0644;
	ret->path = agent_path(j, o->script.path);
	ret->size = o->script.len;
	*ret_data = o->script.data;
}

static void send_files(struct job *j)
{
	struct cay_error err;

	if (files_put_send(&j->put, &err) < 0)
		job_fail(j, &err);
}

static void on_room(void *ctx)
{
	send_files(ctx);
}

static void on_done(void *ctx, const struct agent_end *end _unused_, const struct cay_error *err)
{
	struct job *j = ctx;

	if (err)
		job_fail(j, err);
	else
		job_go_on(j);
}

static const struct agent_sink put_sink = {.room = on_room, .done = on_done};

int job_put(struct job *j, struct cay_error *err)
{
	const struct agent_ask ask = {.op = AGENT_TREE_IN,
				      .path = j->order.engine->sandboxed ? "/" : ".",
				      .idle_ms = FILES_IDLE_MS};

	j->step = STEP_PUT;
	j->call = files_call(j->place.loop, j->ref, j->order.plan, &ask, &put_sink, j, &j->command,
			     err);
	if (!j->call)
		return -1;
	j->put = (struct files_put){.call = j->call, .count = count(j), .nth = nth, .ctx = j};
	send_files(j);
	return 0;
}

static int no_room(struct cay_error *err)
{
	return cay_fail(err, CAY_E_TOO_LARGE, 0,
			"get: more than %llu bytes or %u files for a result",
			(unsigned long long)FILES_JSON_BYTES, FILES_OUT_MAX);
}

static void on_entry(void *ctx, const struct agent_file *file)
{
	struct job *j = ctx;
	struct result *r = &j->result;
	struct file_out *files = NULL;
	struct cay_error err;

	j->get_bytes += file->size;
	if (j->get_bytes <= FILES_JSON_BYTES && r->n_files < FILES_OUT_MAX)
		files = reallocarray(r->files, r->n_files + 1, sizeof(*files));
	if (!files) {
		(void)no_room(&err);
		job_fail(j, &err);
		return;
	}
	r->files = files;
	files[r->n_files] =
		(struct file_out){.path = strdup(file->path), .data = malloc(file->size + 1)};
	if (!files[r->n_files++].path || !files[r->n_files - 1].data) {
		(void)cay_fail(&err, CAY_E_INTERNAL, ENOMEM, "keep a file");
		job_fail(j, &err);
	}
}

/* No more than was said at first: what a file gained since then is left out. */
static void on_data(void *ctx, const void *data, size_t len)
{
	struct job *j = ctx;
	struct result *r = &j->result;
	struct file_out *f = r->n_files ? &r->files[r->n_files - 1] : NULL;

	if (j->failed || !f || j->get_bytes > FILES_JSON_BYTES)
		return;
	if (len > 0) {
		char *grown = realloc(f->data, f->size + len + 1);

		if (!grown || f->size + len > FILES_JSON_BYTES) {
			struct cay_error err;

			if (grown)
				f->data = grown;
			(void)no_room(&err);
			job_fail(j, &err);
			return;
		}
		f->data = grown;
		memcpy(f->data + f->size, data, len);
		f->size += len;
	}
}

static const struct agent_sink get_sink = {.entry = on_entry, .data = on_data, .done = on_done};

/* Globs with a NUL between them. */
static char *globs_of(const struct transfers *t, size_t *ret_len)
{
	char *all, *at;
	size_t len = 0;

	for (size_t n = 0; n < t->len; n++)
		len += strlen(t->items[n].from) + 1;
	at = all = malloc(len + 1);
	for (size_t n = 0; n < t->len && all; n++) {
		size_t one = strlen(t->items[n].from) + 1;

		memcpy(at, t->items[n].from, one);
		at += one;
	}
	*ret_len = len > 0 ? len - 1 : 0;
	return all;
}

int job_get(struct job *j, struct cay_error *err)
{
	struct agent_ask ask = {.op = AGENT_TREE_OUT,
				.flags = AGENT_GET,
				.path = j->order.engine->sandboxed ? ISLAND_WORKSPACE : ".",
				.offset = j->since,
				.length = FILES_JSON_BYTES,
				.idle_ms = FILES_IDLE_MS};
	char *globs = globs_of(&j->order.body->spec.get, &ask.arg_len);

	j->step = STEP_GET;
	if (!globs)
		return cay_fail(err, CAY_E_INTERNAL, ENOMEM, "bring files out");
	ask.arg = globs;
	j->call = files_call(j->place.loop, j->ref, j->order.plan, &ask, &get_sink, j, &j->command,
			     err);
	free(globs);
	return j->call ? 0 : -1;
}

static void on_cleaned(void *ctx, const struct agent_end *end _unused_,
		       const struct cay_error *err _unused_)
{
	job_go_on(ctx);
}

static const struct agent_sink clean_sink = {.done = on_cleaned};

int job_clean(struct job *j)
{
	const struct script *script = &j->order.script;
	const char *const left[] = {has_build_dir(j) ? j->build : NULL,
				    script->passing ? script->path : NULL};
	struct agent_ask ask = {
		.op = AGENT_REMOVE, .flags = AGENT_RECURSIVE, .idle_ms = FILES_IDLE_MS};
	struct cay_error unused;

	while (j->cleaned < ARRAY_LEN(left) && j->ref->number) {
		ask.path = left[j->cleaned++];
		if (!ask.path)
			continue;
		j->step = STEP_CLEAN;
		j->call = files_call(j->place.loop, j->ref, j->order.plan, &ask, &clean_sink, j,
				     &j->command, &unused);
		if (j->call)
			return 0;
	}
	return 1;
}
