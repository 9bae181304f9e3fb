#include "cli/run_remote.h"

#include "base/attr.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/json.h"
#include "cli/cli.h"
#include "cli/remote.h"
#include "cli/remote_request.h"
#include "cli/remote_run.h"
#include "cli/run_files.h"
#include "cli/run_remote_files.h"
#include "cli/spec_options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* Why it is run on this machine in any case; NULL: it isn't. */
static const char *bound_here(const struct run_options *q)
{
	if (q->spec.engine == ENGINE_DIRECT)
		return "--engine direct";
	if (q->spec.engine == ENGINE_DOCKER)
		return "--engine docker";
	if (q->spec.engine == ENGINE_PODMAN)
		return "--engine podman";
	if (q->watch)
		return "--watch";
	if (q->diff || q->apply)
		return q->diff ? "--diff" : "--apply";
	return q->dry_run ? "--dry-run" : NULL;
}

/* Input that is all there, and not more than a request takes. */
static bool stdin_is_simple(const struct run_options *q)
{
	struct stat st;

	if (q->spec.stdin_file)
		return false;
	if (q->code_from_stdin)
		return true;
	if (fstat(STDIN_FILENO, &st) < 0)
		return false;
	return (S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3)) ||
	       (S_ISREG(st.st_mode) && st.st_size <= REMOTE_STDIN_MAX);
}

/* Whether nobody could tell by what comes of it that a daemon did it. */
static bool comes_out_the_same(const struct run_options *q)
{
	const struct spec *s = &q->spec;

	/* Settings of this call's own. */
	if (getenv("CAY_CONFIG"))
		return false;
	/* The current directory is the caller's to mount; a daemon knows of none. */
	if (s->workspace.source || s->n_mounts > 0)
		return false;
	if (s->limits.output_bytes > LIMIT_SERVED_OUTPUT)
		return false;
	/* Trees have any size, and empty directories. */
	if (s->put.len > 0 || (s->get.len > 0 && !q->json))
		return false;
	for (size_t i = 0; i < s->get.len; i++)
		if (!run_remote_glob(s->get.items[i].from))
			return false;
	return stdin_is_simple(q);
}

/*
 * A script becomes code with a name; one of the workspace is run where it lies, unless it
 * had to be read to find out where it begins.
 */
static int take_script(struct run_files *f, struct spec *s, struct cay_error *err)
{
	const char *slash;

	if (run_files_script(f, s, err) < 0)
		return -1;
	if (!f->script.data && !s->language->entry) {
		free(s->file);
		s->file = strdup(f->script.path);
		return s->file ? 0 : cay_fail(err, CAY_E_INTERNAL, ENOMEM, "keep the script");
	}
	slash = strrchr(f->script.path, '/');
	s->kind = SPEC_CODE;
	s->code_len = f->script.text.len;
	s->code = malloc(s->code_len + 1);
	s->file_name = strdup(slash + 1);
	if (!s->code || !s->file_name)
		return cay_fail(err, CAY_E_INTERNAL, ENOMEM, "keep the script");
	memcpy(s->code, buf_str(&f->script.text), s->code_len);
	s->code[s->code_len] = '\0';
	return 0;
}

static int add_stdin(const struct run_options *q, const struct run_files *f, struct json *request,
		     struct cay_error *err)
{
	_cleanup_(fd_closep) int opened = -1;
	char *data = NULL;
	size_t len;
	int r, fd = STDIN_FILENO;

	if (q->spec.stdin_file) {
		if (run_files_open(f, q->spec.stdin_file, 0, "--stdin", &opened, err) < 0)
			return -1;
		fd = opened;
	} else if (q->code_from_stdin || isatty(fd) == 1) {
		return 0;
	}
	if (spec_read_all(fd, REMOTE_STDIN_MAX, "standard input for a daemon", &data, &len, err) <
	    0)
		return -1;
	r = remote_request_stdin(request, data, len, err);
	free(data);
	return r;
}

/* The globs as the API has them, in place. */
static int take_globs(struct transfers *get, struct cay_error *err)
{
	for (size_t i = 0; i < get->len; i++) {
		struct transfer *t = &get->items[i];
		const char *glob = run_remote_glob(t->from);
		char *copy = glob ? strdup(glob) : NULL;

		if (!glob)
			return cay_fail(err, CAY_E_UNSUPPORTED, 0,
					"--get %s: a daemon brings out files of /workspace by name",
					t->from);
		if (!copy)
			return cay_fail(err, CAY_E_INTERNAL, ENOMEM, "read the request");
		free(t->from);
		t->from = copy;
	}
	return 0;
}

static int make_request(struct run_options *q, struct run_files *files, struct json **ret,
			struct cay_error *err)
{
	enum request_place place = q->sandbox ? REQUEST_COMMAND : REQUEST_RUN;
	_cleanup_(json_freep) struct json *j = NULL;

	if (q->spec.kind == SPEC_FILE && take_script(files, &q->spec, err) < 0)
		return -1;
	if (take_globs(&q->spec.get, err) < 0 || remote_request(&q->spec, place, &j, err) < 0)
		return -1;
	if (q->spec.put.len > 0 && run_remote_put(files, j, err) < 0)
		return -1;
	if (add_stdin(q, files, j, err) < 0)
		return -1;
	if (q->scope && remote_request_str(j, "scope", q->scope, "--scope", err) < 0)
		return -1;
	*ret = take_ptr(&j);
	return 0;
}

static int on_result(void *ctx, const struct json *result, struct cay_error *err)
{
	return run_remote_get(ctx, result, err);
}

static int carry_out(struct run_options *q, struct remote *r, bool named, int *ret_code,
		     struct cay_error *err)
{
	_cleanup_(settings_done) struct settings settings;
	_cleanup_(run_files_done) struct run_files files = {0};
	_cleanup_(buf_done) struct buf path = {0};
	_cleanup_(json_freep) struct json *body = NULL;
	struct remote_run run = {.remote = r,
				 .path = "/v1/runs",
				 .json = q->json,
				 .output_limit =
					 q->output_limited ? q->spec.limits.output_bytes : 0,
				 .result = on_result,
				 .ctx = &files};

	settings_init(&settings);
	if ((q->spec.kind == SPEC_FILE || q->spec.put.len > 0 || q->spec.stdin_file) &&
	    settings_load(&settings, err) < 0)
		return -1;
	if (run_files_init(&files, &q->spec, &settings, q->json, err) < 0 ||
	    make_request(q, &files, &body, err) < 0)
		return -1;
	if (q->sandbox) {
		if (remote_sandbox_path(&path, q->sandbox, "/runs", err) < 0)
			return -1;
		run.path = buf_str(&path);
	}
	/* A daemon that nobody named is no reason to wait: it can be run without. */
	if (q->wait || !named)
		json_set_str(body, "wait", q->wait ? q->wait : "0");
	run.body = body;
	*ret_code = remote_run(&run, err);
	return *ret_code < 0 ? -1 : 0;
}

/* A daemon that has no room for it, or won't: it said so before anything began. */
static bool has_no_room(enum cay_code code)
{
	return code == CAY_E_AT_CAPACITY || code == CAY_E_RATE_LIMITED ||
	       code == CAY_E_UNAUTHORIZED;
}

int run_remote(struct run_options *q, int *ret_code, struct cay_error *err)
{
	_cleanup_(remote_freep) struct remote *remote = NULL;
	const char *host = getenv("CAY_HOST"), *why = bound_here(q);
	bool named = (host && host[0]) || q->sandbox || q->scope;
	off_t input;
	int r;

	if (q->scope && q->sandbox)
		return cay_fail(err, CAY_E_INVALID, 0, "--scope and --sandbox: only one of them");
	if (why && q->scope)
		return cay_fail(err, CAY_E_INVALID, 0, "%s can't be had in a scope", why);
	if (why && q->sandbox)
		return cay_fail(err, CAY_E_INVALID, 0, "%s can't be had in a sandbox", why);
	if (why && named)
		cli_note("%s: on this machine, not at CAY_HOST", why);
	if (why || (!named && !comes_out_the_same(q)))
		return 1;
	r = named ? remote_open(&remote, err) : remote_try(&remote, err);
	if (r != 0)
		return r;
	input = lseek(STDIN_FILENO, 0, SEEK_CUR);
	r = carry_out(q, remote, named, ret_code, err);
	if (r == 0 || named || !has_no_room(err->code))
		return r;
	if (input >= 0)
		(void)lseek(STDIN_FILENO, input, SEEK_SET);
	return 1;
}
