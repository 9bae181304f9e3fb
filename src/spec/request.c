/* One row a name, in fields[] at the end; a setter may rely on the rows above its own. */
#include "spec/request.h"

#include "base/attr.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/parse.h"
#include "base/words.h"
#include "core/limit.h"
#include "spec/driver.h"
#include "spec/fields.h"
#include "spec/request_files.h"
#include "spec/request_scope.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_NAME_MAX 250

#define LIFE_MIN_MS 1000ull
#define LIFE_MAX_MS (365ull * 24 * 3600 * 1000)

#define SETTER(name)                                                              \
	static int name(struct reader *r _unused_, const struct json *v _unused_, \
			struct cay_error *err _unused_)

static struct request_body *body(const struct reader *r)
{
	return r->into;
}

/* Names a field that the direct engine can't do as asked. */
static void needs_sandbox(const struct reader *r, const char *field)
{
	if (!body(r)->spec.needs_sandbox)
		body(r)->spec.needs_sandbox = field;
}

/* What is run */

SETTER(set_language)
{
	const char *s = field_str(v, err);

	return s ? spec_set_language(&body(r)->spec, s, err) : -1;
}

SETTER(set_version)
{
	struct spec *s = &body(r)->spec;

	if (!s->language)
		return field_invalid(err, "says nothing without a language");
	if (s->version)
		return field_invalid(err, "the language has one already");
	if (field_copy(v, &s->version, err) < 0)
		return -1;
	return s->version[0] ? 0 : field_invalid(err, "is empty");
}

SETTER(set_code)
{
	struct spec *s = &body(r)->spec;

	s->kind = SPEC_CODE;
	if (field_bytes(v, &s->code, &s->code_len, err) < 0)
		return -1;
	if (s->code_len > CODE_MAX_BYTES)
		return cay_fail(err, CAY_E_TOO_LARGE, 0, "more than %llu bytes", CODE_MAX_BYTES);
	return s->language ? 0 : spec_set_language(s, LANGUAGE_DEFAULT, err);
}

/* Code that was a script: tracebacks and __file__ shall say so. */
SETTER(set_filename)
{
	struct spec *s = &body(r)->spec;
	char path[sizeof(ISLAND_WORKSPACE "/") + NAME_MAX];

	if (s->kind != SPEC_CODE || !s->code)
		return field_invalid(err, "goes with code alone");
	if (field_copy(v, &s->file_name, err) < 0)
		return -1;
	if (strlen(s->file_name) > FILE_NAME_MAX || strchr(s->file_name, '/'))
		return field_invalid(err, "expected a name, without slashes");
	(void)snprintf(path, sizeof(path), "%s/%s", ISLAND_WORKSPACE, s->file_name);
	return island_path_ok(path) ? 0 : field_invalid(err, "names no file");
}

/* One that is there when the program begins: in a workspace, or put there before. */
SETTER(set_file)
{
	struct spec *s = &body(r)->spec;

	s->kind = SPEC_FILE;
	if (request_read_path(v, &s->file, err) < 0)
		return -1;
	if (!s->language)
		s->language = language_by_extension(s->file);
	if (!s->language) {
		(void)field_invalid(err, "its name says no language");
		return cay_hint(err, "say it: language");
	}
	if (s->language->entry) {
		(void)cay_fail(err, CAY_E_UNSUPPORTED, 0, "%s has to be sent as code",
			       s->language->name);
		return cay_hint(err, "where it begins is read from the source, which is there");
	}
	return 0;
}

/* A line for the shell is code of the shell's: as long as code may be, and with arguments. */
SETTER(set_command)
{
	struct spec *s = &body(r)->spec;

	if (s->language)
		return field_invalid(err, "a line for sh, and of no other language");
	return spec_set_language(s, "sh", err) < 0 ? -1 : set_code(r, v, err);
}

SETTER(set_argv)
{
	struct spec *s = &body(r)->spec;

	s->kind = SPEC_ARGV;
	if (s->language)
		return field_invalid(err, "a program of the island's, which has no language");
	if (field_strings(r, v, &s->args, err) < 0)
		return -1;
	return s->args.len > 0 && s->args.items[0][0] ? 0 : field_invalid(err, "names no program");
}

SETTER(set_args)
{
	struct spec *s = &body(r)->spec;

	if (s->kind == SPEC_ARGV)
		return field_invalid(err, "goes with code, command or file: argv has its own");
	return field_strings(r, v, &s->args, err);
}

SETTER(set_stdin)
{
	struct request_body *q = body(r);

	q->has_stdin = true;
	return field_bytes(v, &q->stdin_data, &q->stdin_len, err);
}

SETTER(set_stdin_base64)
{
	struct request_body *q = body(r);

	if (q->has_stdin)
		return field_invalid(err, "stdin is there already");
	q->has_stdin = true;
	return field_base64(v, REQUEST_MAX_BYTES, &q->stdin_data, &q->stdin_len, err);
}

SETTER(set_env)
{
	const struct json *value;
	const char *name, *s;
	void *at = NULL;

	if (json_len(v) > REQUEST_ENV_MAX)
		return field_too_many(err, REQUEST_ENV_MAX);
	while (json_next(v, &at, &name, &value)) {
		size_t back = reader_enter(r, name);

		s = field_str(value, err);
		if (!s || spec_set_env(&body(r)->spec, name, s, err) < 0)
			return -1;
		reader_leave(r, back);
	}
	return 0;
}

SETTER(set_workdir)
{
	const char *s = field_str(v, err);

	return s ? spec_set_workdir(&body(r)->spec, s, err) : -1;
}

/* Limits and times */

/* What a command in a sandbox has of its own; the rest was decided for the island. */
static bool is_commands(const char *limit)
{
	return strcmp(limit, "timeout") == 0 || strcmp(limit, "output") == 0;
}

static int read_limit(struct reader *r, const char *name, const struct json *v,
		      struct cay_error *err)
{
	if (r->place == REQUEST_COMMAND && limit_find(name) && !is_commands(name)) {
		(void)cay_fail(err, CAY_E_INVALID, 0, "can't be said of %s", r->place_is);
		return cay_hint(err, "it is the sandbox's, and said when that is created");
	}
	return field_limit(v, name, &body(r)->spec.limits, err);
}

SETTER(set_limits)
{
	const struct json *value;
	const char *name;
	void *at = NULL;

	while (json_next(v, &at, &name, &value)) {
		size_t back = reader_enter(r, name);

		if (read_limit(r, name, value, err) < 0)
			return -1;
		reader_leave(r, back);
	}
	return 0;
}

static int read_life(const struct json *v, uint64_t *ret, struct cay_error *err)
{
	char number[40];
	const char *text = field_number(v, number, sizeof(number));

	if (text && parse_duration(text, LIFE_MIN_MS, LIFE_MAX_MS, ret) == 0)
		return 0;
	return field_invalid(err, "expected seconds, or a time such as 90s, 30m, 12h; "
				  "from one second to a year");
}

SETTER(set_ttl)
{
	return read_life(v, &body(r)->ttl_ms, err);
}

SETTER(set_idle_timeout)
{
	return read_life(v, &body(r)->idle_timeout_ms, err);
}

/* Names */

static bool word_ok(const char *s, size_t max)
{
	size_t len = strspn(s, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_.");

	return len > 0 && len <= max && s[len] == '\0' && s[0] != '-' && s[0] != '.';
}

bool request_name_ok(const char *text)
{
	/* An id stands wherever a name does. */
	return word_ok(text, REQUEST_NAME_MAX) && strncmp(text, "sbx_", 4) != 0;
}

SETTER(set_name)
{
	if (field_copy(v, &body(r)->name, err) < 0)
		return -1;
	if (request_name_ok(body(r)->name))
		return 0;
	(void)field_invalid(err, "can't be a name");
	return cay_hint(err, "up to %d letters, digits, '-', '_' and '.', and no id",
			REQUEST_NAME_MAX);
}

SETTER(set_labels)
{
	const struct json *value;
	const char *name, *s;
	void *at = NULL;

	if (json_len(v) > REQUEST_LABELS_MAX)
		return field_too_many(err, REQUEST_LABELS_MAX);
	while (json_next(v, &at, &name, &value)) {
		size_t back = reader_enter(r, name);

		if (!word_ok(name, REQUEST_NAME_MAX))
			return field_invalid(err, "can't be a label's name");
		s = field_str(value, err);
		if (!s)
			return -1;
		if (strlen(s) > REQUEST_LABEL_MAX)
			return cay_fail(err, CAY_E_TOO_LARGE, 0, "more than %d bytes",
					REQUEST_LABEL_MAX);
		if (strv_addf(&body(r)->labels, "%s=%s", name, s) < 0)
			return field_no_memory(err);
		reader_leave(r, back);
	}
	return 0;
}

/* Where and how */

SETTER(set_engine)
{
	const char *s = field_str(v, err);

	if (!s)
		return -1;
	if (r->place == REQUEST_SANDBOX && spec_engine_find(s) == ENGINE_DIRECT)
		return field_later(err, "a sandbox that lives on is always one: leave engine out");
	return spec_set_engine(&body(r)->spec, s, err);
}

/* A word that is the only one of its list which can be had as yet. */
static int only(const struct json *v, const char *const *words, const char *hint,
		struct cay_error *err)
{
	_cleanup_(buf_done) struct buf all = BUF(256);
	struct guess guess;
	const char *s = field_str(v, err);

	if (!s)
		return -1;
	guess = GUESS(s);
	for (size_t i = 0; words[i]; i++) {
		if (strcmp(s, words[i]) == 0)
			return i == 0 ? 0 : field_later(err, hint);
		guess_offer(&guess, words[i]);
		(void)buf_printf(&all, "%s%s", i ? ", " : "", words[i]);
	}
	(void)field_invalid(err, "no such value");
	return guess.meant ? cay_hint(err, "did you mean %s?", guess.meant)
			   : cay_hint(err, "it is one of %s", buf_str(&all));
}

SETTER(set_network_mode)
{
	const char *text = field_str(v, err);

	return text ? spec_set_network(&body(r)->spec, text, err) : -1;
}

static int read_rules(struct reader *r, const struct json *v,
		      int (*add)(struct spec *, const char *, struct cay_error *),
		      struct cay_error *err)
{
	for (size_t i = 0; i < json_len(v); i++) {
		size_t back = reader_enter_at(r, i);
		const char *text = field_str(json_at(v, i), err);

		if (!text || add(&body(r)->spec, text, err) < 0)
			return -1;
		reader_leave(r, back);
	}
	return 0;
}

SETTER(set_allow)
{
	return read_rules(r, v, spec_allow_domain, err);
}

SETTER(set_block)
{
	return read_rules(r, v, spec_block_domain, err);
}

static const struct field network_fields[] = {
	{"mode", TAKES_STR, set_network_mode, 0},
	{"allow", TAKES_ARRAY, set_allow, 0},
	{"block", TAKES_ARRAY, set_block, 0},
};

SETTER(set_network)
{
	needs_sandbox(r, "network");
	return fields_read(r, network_fields, ARRAY_LEN(network_fields), v, err);
}

SETTER(set_image)
{
	const char *s = field_str(v, err);

	if (s && strcmp(s, IMAGE_HOST) != 0)
		needs_sandbox(r, "image");
	return s ? spec_set_image(&body(r)->spec, s, err) : -1;
}

SETTER(set_user)
{
	const char *s = field_str(v, err);

	needs_sandbox(r, "user");
	return s ? spec_set_user(&body(r)->spec, s, err) : -1;
}

/* Live sandboxes are what they are called. */
SETTER(set_mode)
{
	static const char *const modes[] = {"all", "selective", "off", NULL};
	const char *s = json_str(v);

	if (r->place == REQUEST_SANDBOX || !s || mode_find(s) == MODE_UNSAID)
		return only(v, modes, "a sandbox that lives on is always one: leave mode out", err);
	body(r)->spec.mode = mode_find(s);
	return 0;
}

SETTER(set_trusted)
{
	if (r->place == REQUEST_SANDBOX && json_bool(v))
		return field_later(err, "a sandbox that lives on is always one: leave it out");
	body(r)->spec.trusted = json_bool(v);
	return 0;
}

SETTER(set_tier)
{
	const char *text = field_str(v, err);

	return text ? spec_set_tier(&body(r)->spec, text, err) : -1;
}

SETTER(set_writable)
{
	needs_sandbox(r, "writable");
	body(r)->spec.writable = json_bool(v);
	return 0;
}

/* An interpreter that is driven runs code alone: the words of its own start are the driver's. */
static int check_driven(const struct request_body *q, struct cay_error *err)
{
	const struct spec *s = &q->spec;

	if (s->kind != SPEC_CODE || !s->code)
		return field_invalid(err, "goes with code alone");
	if (s->file_name)
		return field_invalid(err, "goes without a filename");
	if (!driver_text(s->language)) {
		(void)cay_fail(err, CAY_E_UNSUPPORTED, 0, "there is none for %s",
			       s->language->name);
		return cay_hint(err, "python, javascript and bash have interpreters that remember");
	}
	if (driver_is_plain(s->language) && memchr(s->code, '\0', s->code_len))
		return field_invalid(err, "the code has a NUL in it");
	return 0;
}

SETTER(set_context)
{
	struct request_body *q = body(r);

	if (r->place != REQUEST_COMMAND && !q->scope) {
		(void)field_invalid(err,
				    "only a sandbox that lives on has interpreters that remember");
		return cay_hint(err, "create a sandbox, and run it there; or name a scope");
	}
	if (field_copy(v, &q->context, err) < 0)
		return -1;
	if (!word_ok(q->context, REQUEST_NAME_MAX)) {
		(void)field_invalid(err, "can't be a name");
		return cay_hint(err, "up to %d letters, digits, '-', '_' and '.'",
				REQUEST_NAME_MAX);
	}
	if (check_driven(q, err) < 0)
		return -1;
	return q->spec.args.len == 0
		       ? 0
		       : field_invalid(err, "an interpreter that remembers has no arguments");
}

SETTER(set_rich)
{
	body(r)->rich = json_bool(v);
	return body(r)->rich ? check_driven(body(r), err) : 0;
}

SETTER(set_background)
{
	body(r)->background = json_bool(v);
	return 0;
}

SETTER(set_wait)
{
	struct request_body *q = body(r);
	char number[40];
	const char *text = field_number(v, number, sizeof(number));

	q->has_wait = true;
	if (text && parse_duration(text, 0, REQUEST_WAIT_MAX * 1000ull, &q->wait_ms) == 0)
		return 0;
	return field_invalid(err, "expected seconds, or a time such as 500ms, 30s, 5m; 0 does not "
				  "wait, and an hour is the longest");
}

SETTER(set_dry_run)
{
	body(r)->dry_run = json_bool(v);
	if (body(r)->dry_run && body(r)->background)
		return field_invalid(err, "has an answer at once: not in the background");
	return 0;
}

SETTER(set_cold)
{
	body(r)->spec.cold = json_bool(v);
	return 0;
}

SETTER(set_allow_degraded)
{
	body(r)->spec.allow_degraded = json_bool(v);
	return 0;
}

SETTER(set_persistent)
{
	body(r)->persistent = json_bool(v);
	return 0;
}

#define PROGRAM (REQUEST_RUN | REQUEST_COMMAND) /* what runs */
#define ISLAND  (REQUEST_RUN | REQUEST_SANDBOX) /* where it runs */
#define ALL     (PROGRAM | ISLAND)

static const struct field fields[] = {
	{"language", TAKES_STR, set_language, ALL},
	{"version", TAKES_STR, set_version, ALL},
	{"code", TAKES_STR, set_code, PROGRAM},
	{"command", TAKES_STR, set_command, PROGRAM},
	{"file", TAKES_STR, set_file, PROGRAM},
	{"filename", TAKES_STR, set_filename, PROGRAM},
	{"argv", TAKES_ARRAY, set_argv, PROGRAM},
	{"args", TAKES_ARRAY, set_args, PROGRAM},
	{"stdin", TAKES_STR, set_stdin, PROGRAM},
	{"stdin_base64", TAKES_STR, set_stdin_base64, PROGRAM},
	{"env", TAKES_OBJECT, set_env, ALL},
	{"workdir", TAKES_STR, set_workdir, ALL},
	{"files", TAKES_ARRAY, request_set_files, ALL},
	{"get", TAKES_ARRAY, request_set_get, PROGRAM},
	{"limits", TAKES_OBJECT, set_limits, ALL},
	{"mounts", TAKES_ARRAY, request_set_mounts, ISLAND},
	{"workspace", TAKES_OBJECT, request_set_workspace, ISLAND},
	{"engine", TAKES_STR, set_engine, ISLAND},
	{"image", TAKES_STR, set_image, ISLAND},
	{"writable", TAKES_BOOL, set_writable, ISLAND},
	{"user", TAKES_STR, set_user, ISLAND},
	{"network", TAKES_OBJECT, set_network, ISLAND},
	{"mode", TAKES_STR, set_mode, ISLAND},
	{"tier", TAKES_STR, set_tier, ISLAND},
	{"trusted", TAKES_BOOL, set_trusted, ISLAND},
	{"scope", TAKES_STR, request_set_scope, ISLAND},
	{"context", TAKES_STR, set_context, PROGRAM},
	{"rich", TAKES_BOOL, set_rich, PROGRAM},
	{"background", TAKES_BOOL, set_background, PROGRAM},
	{"wait", TAKES_STR | TAKES_NUMBER, set_wait, PROGRAM},
	{"dry_run", TAKES_BOOL, set_dry_run, ISLAND},
	{"cold", TAKES_BOOL, set_cold, ISLAND},
	{"allow_degraded", TAKES_BOOL, set_allow_degraded, ISLAND},
	{"labels", TAKES_OBJECT, set_labels, ALL},
	{"name", TAKES_STR, set_name, REQUEST_SANDBOX},
	{"ttl", TAKES_STR | TAKES_NUMBER, set_ttl, REQUEST_SANDBOX},
	{"idle_timeout", TAKES_STR | TAKES_NUMBER, set_idle_timeout, REQUEST_SANDBOX},
	{"persistent", TAKES_BOOL, set_persistent, REQUEST_SANDBOX},
};

static int count_programs(const struct json *j)
{
	static const char *const names[] = {"code", "command", "file", "argv"};
	int n = 0;

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		n += json_get(j, names[i]) != NULL;
	return n;
}

static int not_one(struct cay_error *err, const char *what)
{
	(void)field_invalid(err, what);
	return cay_hint(
		err, "code in a language, a file of it, a command for sh, or an argv: one of them");
}

int request_read(struct request_body *ret, enum request_place place, const struct json *j,
		 struct cay_error *err)
{
	struct reader r = {.into = ret, .place = place};

	*ret = (struct request_body){0};
	r.place_is = place == REQUEST_RUN       ? "a run"
		     : place == REQUEST_SANDBOX ? "a sandbox"
						: "a command in a sandbox";
	if (field_check_kind(j, TAKES_OBJECT, err) < 0)
		return cay_wrap(err, "the request");
	/* Of two, the setters would make what they can; that there is none may be a misspelling. */
	if (place != REQUEST_SANDBOX && count_programs(j) > 1)
		return not_one(err, "more than one of code, command, file and argv");
	if (fields_read(&r, fields, ARRAY_LEN(fields), j, err) < 0)
		return reader_fail(&r, err);
	if (place != REQUEST_SANDBOX && count_programs(j) == 0)
		return not_one(err, "nothing to run");
	return place == REQUEST_RUN && ret->scope ? request_keep_place(ret, j, err) : 0;
}

static int keep_text(struct request_body *q, const char *text, size_t len, struct cay_error *err)
{
	if (len > REQUEST_KEPT_MAX) {
		(void)cay_fail(err, CAY_E_TOO_LARGE, 0,
			       "the request for a persistent sandbox is longer than %u bytes",
			       REQUEST_KEPT_MAX);
		return cay_hint(err, "put files there when it stands");
	}
	q->text = strndup(text, len);
	return q->text ? 0 : cay_fail(err, CAY_E_INTERNAL, ENOMEM, "keep the request");
}

int request_parse(struct request_body *ret, enum request_place place, const char *text, size_t len,
		  struct cay_error *err)
{
	_cleanup_(json_freep) struct json *j = NULL;

	*ret = (struct request_body){0};
	if (fields_parse(text, len, REQUEST_MAX_BYTES, &j, err) < 0)
		return cay_wrap(err, "the request");
	if (request_read(ret, place, j, err) < 0)
		return -1;
	return ret->persistent ? keep_text(ret, text, len, err) : 0;
}

void request_files_done(struct request_body *q)
{
	for (size_t i = 0; i < q->n_files; i++) {
		free(q->files[i].path);
		free(q->files[i].data);
	}
	free(q->files);
	q->files = NULL;
	q->n_files = 0;
}

void request_body_done(struct request_body *q)
{
	spec_done(&q->spec);
	request_files_done(q);
	free(q->stdin_data);
	free(q->name);
	free(q->workspace);
	free(q->context);
	free(q->text);
	free(q->scope);
	free(q->place);
	strv_done(&q->labels);
	*q = (struct request_body){0};
}

void request_body_free(struct request_body *q)
{
	if (q)
		request_body_done(q);
	free(q);
}

struct json *request_labels_json(const struct request_body *q)
{
	struct json *j = json_new_object();

	for (size_t i = 0; i < q->labels.len; i++) {
		char *item = q->labels.items[i], *eq = strchr(item, '=');

		assert(eq);
		*eq = '\0';
		json_set_str(j, item, eq + 1);
		*eq = '=';
	}
	return j;
}
