#include "core/result.h"

#include "base/attr.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/text.h"
#include "core/limit.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

static const char *const status_names[STATUSES] = {
	[STATUS_OK] = "ok",
	[STATUS_FAILED] = "failed",
	[STATUS_SIGNAL] = "signal",
	[STATUS_TIMEOUT] = "timeout",
	[STATUS_OUT_OF_MEMORY] = "out_of_memory",
	[STATUS_OUTPUT_LIMIT] = "output_limit",
	[STATUS_CANCELLED] = "cancelled",
	[STATUS_INTERRUPTED] = "interrupted",
	[STATUS_SANDBOX_ERROR] = "sandbox_error",
};

const char *const namespace_names[NAMESPACES] = {"user", "pid", "mount",  "net",
						 "ipc",  "uts", "cgroup", "time"};

static const char *const hold_names[HOLDS] = {
	[HOLD_NONE] = "none",       [HOLD_USERNS] = "userns",       [HOLD_CGROUP1] = "cgroup1",
	[HOLD_CGROUP2] = "cgroup2", [HOLD_RLIMIT] = "rlimit",       [HOLD_TMPFS] = "tmpfs",
	[HOLD_LOOP] = "loop",       [HOLD_ALLOWLIST] = "allowlist", [HOLD_HOST] = "host",
	[HOLD_FULL] = "full",       [HOLD_KEPT] = "kept",
};

const char *hold_name(enum hold h)
{
	return (unsigned)h < HOLDS ? hold_names[h] : NULL;
}

enum hold network_hold(enum network_mode m)
{
	static const enum hold holds[NETWORK_MODES] = {
		[NETWORK_NONE] = HOLD_NONE,
		[NETWORK_ALLOWLIST] = HOLD_ALLOWLIST,
		[NETWORK_FULL] = HOLD_FULL,
	};

	return holds[m];
}

const char *status_name(enum status s)
{
	return status_names[s];
}

void result_done(struct result *r)
{
	for (int i = 0; i < STREAMS; i++)
		capture_done(&r->output[i]);
	capture_done(&r->compile.output);
	for (size_t i = 0; i < r->n_files; i++) {
		free(r->files[i].path);
		free(r->files[i].data);
	}
	free(r->files);
	free(r->context);
	json_free(r->results);
	json_free(r->exception);
	strv_done(&r->notes);
	free(r->engine);
	free(r->engine_reason);
	free(r->image);
	free(r->language);
	free(r->version);
	strv_done(&r->allow);
	strv_done(&r->block);
	egress_log_done(&r->egress);
	*r = (struct result){0};
}

void result_warn(struct result *r, unsigned uid)
{
	if (!r->sandboxed && !r->message[0])
		(void)snprintf(r->message, sizeof(r->message), "ran without a sandbox, as user %u",
			       uid);
}

int result_exit_code(const struct result *r)
{
	switch (r->status) {
	case STATUS_OK:
	case STATUS_FAILED:
		return r->exit_code;
	case STATUS_TIMEOUT:
		return 124;
	case STATUS_OUT_OF_MEMORY:
		return 128 + SIGKILL;
	case STATUS_SIGNAL:
	case STATUS_CANCELLED:
		return 128 + r->signal;
	case STATUS_OUTPUT_LIMIT:
		return 128 + SIGXFSZ;
	case STATUS_INTERRUPTED:
	case STATUS_SANDBOX_ERROR:
	case STATUSES:
		break;
	}
	return 125;
}

static void set_base64(struct json *o, const char *key, const char *data, size_t len)
{
	_cleanup_(buf_done) struct buf text = BUF(SIZE_MAX / 4);

	if (text_append_base64(&text, data, len) == 0)
		json_set_str(o, key, buf_str(&text));
	else
		json_set(o, key, NULL);
}

/* stdout, and stdout_base64 where the text is not all there was. */
static void set_stream(struct json *o, const struct capture *c, const char *key,
		       const char *key_base64)
{
	_cleanup_(buf_done) struct buf bytes = BUF(SIZE_MAX / 4);

	if (capture_text(c, &bytes) < 0) {
		json_set(o, key, NULL); /* noticed by json_text() */
		return;
	}
	json_set_bytes(o, key, bytes.data, bytes.len);
	if (bytes.len > 0 && !text_is_utf8(bytes.data, bytes.len))
		set_base64(o, key_base64, bytes.data, bytes.len);
}

static struct json *usage_json(const struct usage *u, double queued_ms)
{
	struct json *o = json_new_object();

	json_set_real(o, "wall_ms", u->wall_ms);
	json_set_real(o, "cpu_ms", u->cpu_ms);
	if (isnan(u->cpu_ms))
		json_set_null(o, "memory_peak_bytes");
	else
		json_set_int(o, "memory_peak_bytes", (int64_t)u->memory_peak_bytes);
	if (u->processes_peak)
		json_set_int(o, "processes_peak", (int64_t)u->processes_peak);
	else
		json_set_null(o, "processes_peak");
	json_set_real(o, "queued_ms", queued_ms);
	return o;
}

struct json *isolation_json(const struct isolation *i)
{
	struct json *o = json_new_object(), *names = json_new_array(), *lost = json_new_array();

	json_set_str(o, "user", hold_name(i->user));
	json_set_str(o, "memory", hold_name(i->memory));
	json_set_str(o, "pids", hold_name(i->pids));
	json_set_str(o, "cpu", hold_name(i->cpu));
	json_set_str(o, "disk", hold_name(i->disk));
	json_set_str(o, "seccomp", hold_name(i->seccomp));
	json_set_int(o, "landlock", i->landlock);
	json_set_str(o, "network", hold_name(i->network));
	json_set_str(o, "capabilities", hold_name(i->capabilities));
	json_set_bool(o, "no_new_privs", i->no_new_privs);
	json_set_bool(o, "read_only_root", i->read_only_root);
	for (unsigned n = 0; n < NAMESPACES; n++)
		if (i->namespaces & 1u << n)
			json_add_str(names, namespace_names[n]);
	json_set(o, "namespaces", names);
	for (size_t n = 0; n < n_limit_rows; n++)
		if (i->degraded & limit_bit(&limit_rows[n]))
			json_add_str(lost, limit_rows[n].name);
	json_set(o, "degraded", lost);
	return o;
}

static struct json *files_json(const struct result *r)
{
	struct json *list = json_new_array();

	for (size_t i = 0; i < r->n_files; i++) {
		struct json *f = json_new_object();

		json_set_str(f, "path", r->files[i].path);
		json_set_int(f, "size", (int64_t)r->files[i].size);
		set_base64(f, "data", r->files[i].data, r->files[i].size);
		json_add(list, f);
	}
	return list;
}

static struct json *compilation_json(const struct compilation *c)
{
	struct json *o = json_new_object();
	bool exited = c->ended && WIFEXITED(c->wait_status);

	json_set_bool(o, "success", exited && WEXITSTATUS(c->wait_status) == 0);
	if (exited)
		json_set_int(o, "exit_code", WEXITSTATUS(c->wait_status));
	else
		json_set_null(o, "exit_code");
	set_stream(o, &c->output, "output", "output_base64");
	json_set_bool(o, "output_truncated", capture_truncated(&c->output));
	json_set_real(o, "wall_ms", c->wall_ms);
	return o;
}

const char *result_start(const struct result *r)
{
	return r->start[0] ? r->start : "cold";
}

/* What code showed, of which the result has a hold of its own. */
static void set_shown(struct json *o, const struct result *r)
{
	struct json *notes = json_new_array();

	for (size_t i = 0; i < r->notes.len; i++)
		json_add_str(notes, r->notes.items[i]);
	json_set(o, "results", r->results ? json_ref(r->results) : json_new_array());
	json_set(o, "notes", notes);
	if (r->exception)
		json_set(o, "exception", json_ref(r->exception));
	else
		json_set_null(o, "exception");
	json_set_str(o, "context", r->context);
	json_set_bool(o, "state_lost", r->state_lost);
}

struct json *result_json(const struct result *r)
{
	struct json *o = json_new_object();

	json_set_str(o, "id", r->id);
	json_set_bool(o, "success", r->status == STATUS_OK);
	json_set_str(o, "status", status_name(r->status));
	json_set_str(o, "message", r->message);
	if (r->exited)
		json_set_int(o, "exit_code", r->exit_code);
	else
		json_set_null(o, "exit_code");
	if (r->signal)
		json_set_int(o, "signal", r->signal);
	else
		json_set_null(o, "signal");
	json_set_bool(o, "timed_out", r->timed_out);
	if (r->compile.begun)
		json_set(o, "compile", compilation_json(&r->compile));
	else
		json_set_null(o, "compile");
	set_stream(o, &r->output[STREAM_STDOUT], "stdout", "stdout_base64");
	set_stream(o, &r->output[STREAM_STDERR], "stderr", "stderr_base64");
	json_set_bool(o, "stdout_truncated", capture_truncated(&r->output[STREAM_STDOUT]));
	json_set_bool(o, "stderr_truncated", capture_truncated(&r->output[STREAM_STDERR]));
	set_shown(o, r);
	json_set(o, "files", files_json(r));
	json_set(o, "usage", usage_json(&r->usage, r->queued_ms));
	json_set_str(o, "engine", r->engine);
	json_set_str(o, "engine_reason", r->engine_reason ? r->engine_reason : "");
	json_set(o, "policy", decision_json(&r->decision));
	json_set_str(o, "start", result_start(r));
	json_set_str(o, "image", r->image);
	json_set_str(o, "language", r->language);
	json_set_str(o, "version", r->version);
	json_set_str(o, "network", hold_name(r->isolation.network));
	json_set(o, "network_rules", egress_rules_json(&r->allow, &r->block));
	json_set(o, "egress", egress_log_json(&r->egress));
	json_set_int(o, "egress_unlisted", (int64_t)r->egress.unlisted);
	json_set_bool(o, "sandboxed", r->sandboxed);
	json_set_str(o, "sandbox", r->sandbox[0] ? r->sandbox : NULL);
	json_set(o, "isolation", isolation_json(&r->isolation));
	return o;
}
