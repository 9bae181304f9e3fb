#include "cli/remote_request.h"

#include "base/attr.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/text.h"
#include "core/limit.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int check_text(const char *text, size_t len, const char *what, struct cay_error *err)
{
	return text_is_utf8(text, len) ? 0
				       : cay_fail(err, CAY_E_UNSUPPORTED, 0,
						  "%s is not UTF-8, as a daemon needs it", what);
}

int remote_request_str(struct json *to, const char *key, const char *value, const char *what,
		       struct cay_error *err)
{
	if (check_text(value, strlen(value), what, err) < 0)
		return -1;
	json_set_str(to, key, value);
	return 0;
}

static int set_strings(struct json *to, const char *key, const struct strv *v, const char *what,
		       struct cay_error *err)
{
	struct json *list;

	for (size_t i = 0; i < v->len; i++)
		if (check_text(v->items[i], strlen(v->items[i]), what, err) < 0)
			return -1;
	list = json_new_array();
	for (size_t i = 0; i < v->len; i++)
		json_add_str(list, v->items[i]);
	json_set(to, key, list);
	return 0;
}

static void set_language(struct json *to, const struct spec *s)
{
	if (s->language)
		json_set_str(to, "language", s->language->name);
	if (s->version)
		json_set_str(to, "version", s->version);
}

static int set_program(struct json *to, const struct spec *s, struct cay_error *err)
{
	if (s->kind == SPEC_ARGV)
		return set_strings(to, "argv", &s->args, "an argument", err);
	set_language(to, s);
	if (s->kind == SPEC_FILE) {
		if (remote_request_str(to, "file", s->file, "the script's name", err) < 0)
			return -1;
	} else if (check_text(s->code, s->code_len, "the code", err) == 0) {
		json_set_bytes(to, "code", s->code, s->code_len);
	} else {
		return -1;
	}
	if (s->file_name &&
	    remote_request_str(to, "filename", s->file_name, "the script's name", err) < 0)
		return -1;
	return s->args.len == 0 ? 0 : set_strings(to, "args", &s->args, "an argument", err);
}

static int set_env(struct json *to, const struct strv *env, struct cay_error *err)
{
	_cleanup_(json_freep) struct json *o = json_new_object();

	for (size_t i = 0; i < env->len; i++) {
		const char *equals = strchr(env->items[i], '=');
		char *name = strndup(env->items[i], (size_t)(equals - env->items[i]));
		int r = -1;

		if (!name)
			return cay_fail(err, CAY_E_INTERNAL, ENOMEM, "write the request");
		if (check_text(name, strlen(name), "a variable", err) == 0)
			r = remote_request_str(o, name, equals + 1, name, err);
		free(name);
		if (r < 0)
			return -1;
	}
	if (env->len > 0)
		json_set(to, "env", take_ptr(&o));
	return 0;
}

static void set_limit(struct json *to, const struct limit_row *row, uint64_t value)
{
	char text[40];

	switch (row->unit) {
	case LIMIT_BYTES:
	case LIMIT_COUNT:
		json_set_int(to, row->name, (int64_t)value);
		return;
	case LIMIT_MILLI:
		(void)snprintf(text, sizeof(text), "%llu.%03llu", (unsigned long long)value / 1000,
			       (unsigned long long)value % 1000);
		break;
	case LIMIT_TIME:
		(void)snprintf(text, sizeof(text), "%llums", (unsigned long long)value);
		break;
	}
	json_set_str(to, row->name, text);
}

static void set_limits(struct json *to, const struct limits *l)
{
	struct json *o = json_new_object();

	for (size_t i = 0; i < n_limit_rows; i++)
		if (limit_get(l, &limit_rows[i]) != 0)
			set_limit(o, &limit_rows[i], limit_get(l, &limit_rows[i]));
	if (json_len(o) > 0)
		json_set(to, "limits", o);
	else
		json_free(o);
}

static int set_mount(struct json *to, const struct mount_spec *m, struct cay_error *err)
{
	char cwd[PATH_MAX], full[2 * PATH_MAX];

	if (m->source[0] == '/')
		(void)snprintf(full, sizeof(full), "%s", m->source);
	else if (!getcwd(cwd, sizeof(cwd)))
		return cay_fail(err, CAY_E_INVALID, errno, "the current directory");
	else if (strcmp(m->source, ".") == 0)
		(void)snprintf(full, sizeof(full), "%s", cwd);
	else
		(void)snprintf(full, sizeof(full), "%s/%s", cwd, m->source);
	json_set_str(to, "access", access_name(m->access));
	return remote_request_str(to, "source", full, "the path of a mount", err);
}

static int set_mounts(struct json *to, const struct spec *s, struct cay_error *err)
{
	struct json *list, *o;
	int r = 0;

	if (s->workspace.source) {
		o = json_new_object();
		r = set_mount(o, &s->workspace, err);
		json_set(to, "workspace", o);
	}
	if (r < 0 || s->n_mounts == 0)
		return r;
	list = json_new_array();
	for (size_t i = 0; i < s->n_mounts && r == 0; i++) {
		o = json_new_object();
		r = set_mount(o, &s->mounts[i], err);
		if (r == 0)
			r = remote_request_str(o, "target", s->mounts[i].target,
					       "the target of a mount", err);
		json_add(list, o);
	}
	json_set(to, "mounts", list);
	return r;
}

static void set_network(struct json *to, const struct network_spec *n)
{
	struct json *o;

	if (!n->said && n->allow.len == 0 && n->block.len == 0)
		return;
	o = egress_rules_json(&n->allow, &n->block);
	if (n->said)
		json_set_str(o, "mode", network_mode_name(n->mode));
	json_set(to, "network", o);
}

static int set_gets(struct json *to, const struct transfers *get, struct cay_error *err)
{
	struct json *list;

	for (size_t i = 0; i < get->len; i++)
		if (check_text(get->items[i].from, strlen(get->items[i].from), "--get", err) < 0)
			return -1;
	if (get->len == 0)
		return 0;
	list = json_new_array();
	for (size_t i = 0; i < get->len; i++)
		json_add_str(list, get->items[i].from);
	json_set(to, "get", list);
	return 0;
}

int remote_request(const struct spec *s, enum request_place place, struct json **ret,
		   struct cay_error *err)
{
	_cleanup_(json_freep) struct json *j = json_new_object();

	if (place == REQUEST_SANDBOX)
		set_language(j, s);
	else if (set_program(j, s, err) < 0)
		return -1;
	if (set_env(j, &s->env, err) < 0 || set_gets(j, &s->get, err) < 0 ||
	    (place != REQUEST_COMMAND && set_mounts(j, s, err) < 0))
		return -1;
	if (s->workdir && remote_request_str(j, "workdir", s->workdir, "--workdir", err) < 0)
		return -1;
	if (s->image && remote_request_str(j, "image", s->image, "--image", err) < 0)
		return -1;
	if (s->writable)
		json_set_bool(j, "writable", true);
	if (s->as_root)
		json_set_str(j, "user", "root");
	set_limits(j, &s->limits);
	set_network(j, &s->network);
	if (s->cold)
		json_set_bool(j, "cold", true);
	if (s->allow_degraded)
		json_set_bool(j, "allow_degraded", true);
	if (s->mode != MODE_UNSAID)
		json_set_str(j, "mode", mode_name(s->mode));
	if (s->trusted)
		json_set_bool(j, "trusted", true);
	if (s->has_tier)
		json_set_str(j, "tier", tier_name(s->tier));
	if (s->engine != ENGINE_AUTO)
		json_set_str(j, "engine", spec_engine_name(s->engine));
	*ret = take_ptr(&j);
	return 0;
}

static int set_base64(struct json *to, const char *key, const char *data, size_t len,
		      struct cay_error *err)
{
	_cleanup_(buf_done) struct buf text = BUF(REQUEST_MAX_BYTES);
	int r = text_append_base64(&text, data, len);

	if (r < 0)
		return cay_fail(err, r == -EFBIG ? CAY_E_TOO_LARGE : CAY_E_INTERNAL, -r,
				"write the request");
	json_set_str(to, key, buf_str(&text));
	return 0;
}

int remote_request_stdin(struct json *request, const char *data, size_t len, struct cay_error *err)
{
	if (len == 0)
		return 0;
	if (!text_is_utf8(data, len))
		return set_base64(request, "stdin_base64", data, len, err);
	json_set_bytes(request, "stdin", data, len);
	return 0;
}

int remote_request_file(struct json *files, const char *path, const char *data, size_t len,
			bool executable, struct cay_error *err)
{
	struct json *o = json_new_object();
	int r = remote_request_str(o, "path", path, "a file's name", err);

	if (r == 0)
		r = set_base64(o, "data", data, len, err);
	if (executable)
		json_set_bool(o, "executable", true);
	json_add(files, o);
	return r;
}
