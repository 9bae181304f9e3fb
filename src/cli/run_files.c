#include "cli/run_files.h"

#include "base/attr.h"
#include "base/fd.h"
#include "cli/cli.h"
#include "session/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int run_files_init(struct run_files *f, const struct spec *spec, bool into_result,
		   struct cay_error *err)
{
	*f = (struct run_files){
		.spec = spec, .into_result = into_result, .text = BUF(CODE_MAX_BYTES)};
	for (size_t i = 0; i < spec->get.len; i++)
		if (files_check_path(spec->get.items[i].from, err) < 0)
			return cay_wrap(err, "--get");
	for (size_t i = 0; i < spec->put.len; i++)
		if (spec->put.items[i].to && files_check_path(spec->put.items[i].to, err) < 0)
			return cay_wrap(err, "--put");
	return 0;
}

void run_files_done(struct run_files *f)
{
	buf_done(&f->text);
}

const char *run_files_path(const struct run_files *f)
{
	return f->script[0] ? f->script : NULL;
}

/* Beside the program's other files where that is writable, so that imports work; else in /tmp. */
static void set_path(struct run_files *f, const char *name)
{
	(void)snprintf(f->script, sizeof(f->script), "%s/%s",
		       f->spec->workspace.source ? "/tmp" : ISLAND_WORKSPACE, name);
}

void run_files_code(struct run_files *f, const struct spec *spec)
{
	set_path(f, spec->language->file_name);
	f->data = spec->code;
	f->len = spec->code_len;
}

/* A script that lies in the workspace is run where it is, with its neighbours. */
static bool lies_in_workspace(struct run_files *f, const char *script)
{
	char dir[PATH_MAX], file[PATH_MAX];
	const char *rest;

	if (!f->spec->workspace.source || !realpath(f->spec->workspace.source, dir) ||
	    !realpath(script, file) || !path_is_within(file, dir))
		return false;
	rest = file + (strcmp(dir, "/") == 0 ? 0 : strlen(dir));
	return snprintf(f->script, sizeof(f->script), "%s%s", ISLAND_WORKSPACE, rest) <
	       (int)sizeof(f->script);
}

int run_files_script(struct run_files *f, const struct spec *spec, struct cay_error *err)
{
	const char *slash = strrchr(spec->file, '/');
	_cleanup_(fd_closep) int fd = open(spec->file, O_RDONLY | O_CLOEXEC);
	struct stat st;
	int r;

	if (fd < 0)
		return cay_fail(err, CAY_E_NOT_FOUND, errno, "the script %s", spec->file);
	if (fstat(fd, &st) < 0 || S_ISDIR(st.st_mode))
		return cay_fail(err, CAY_E_INVALID, EISDIR, "the script %s", spec->file);
	if (spec->engine == ENGINE_DIRECT) {
		/* On the host's own files it is where it is. */
		return realpath(spec->file, f->script)
			       ? 0
			       : cay_fail(err, CAY_E_NOT_FOUND, errno, "the script %s", spec->file);
	}
	if (lies_in_workspace(f, spec->file))
		return 0;
	r = fd_read_all(fd, &f->text);
	if (r < 0)
		return cay_fail(err, r == -EFBIG ? CAY_E_TOO_LARGE : CAY_E_INVALID, -r,
				"read the script %s", spec->file);
	set_path(f, slash ? slash + 1 : spec->file);
	f->data = buf_str(&f->text);
	f->len = f->text.len;
	return 0;
}

static int files_in(void *ctx, const struct island_files *files, struct cay_error *err)
{
	struct run_files *f = ctx;

	for (size_t i = 0; i < f->spec->put.len; i++)
		if (files_put(files, f->spec->put.items[i].from, f->spec->put.items[i].to, err) < 0)
			return -1;
	return f->data ? files_write(files, f->script, f->data, f->len, 0644, err) : 0;
}

/* One --get: where its files go. */
struct getting {
	struct run_files *f;
	const char *to;
	bool to_directory;
};

static int keep_file(struct result *r, const char *path, int fd, size_t size, struct cay_error *err)
{
	struct file_out *files = reallocarray(r->files, r->n_files + 1, sizeof(*files)), *file;
	_cleanup_(buf_done) struct buf data = BUF(FILES_OUT_BYTES);
	int e;

	if (!files)
		return cay_fail(err, CAY_E_INTERNAL, ENOMEM, "keep %s", path);
	r->files = files;
	e = fd_read_all(fd, &data);
	if (e < 0)
		return cay_fail(err, CAY_E_INTERNAL, -e, "read %s", path);
	(void)size;
	file = &files[r->n_files];
	file->size = data.len;
	file->path = strdup(path);
	file->data = buf_take(&data);
	r->n_files++;
	return file->path && file->data ? 0
					: cay_fail(err, CAY_E_INTERNAL, ENOMEM, "keep %s", path);
}

/* Into the caller's directory: replaced, never written through a link; see session/files.c. */
static int save_file(const char *dir, const char *path, int fd, struct cay_error *err)
{
	_cleanup_(fd_closep) int at = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct island_files here = {.workspace = at, .tmp = -1};
	_cleanup_(buf_done) struct buf data = BUF(FILES_OUT_BYTES);
	int r;

	if (at < 0)
		return cay_fail(err, CAY_E_NOT_FOUND, errno, "--get to %s", dir);
	r = fd_read_all(fd, &data);
	if (r < 0)
		return cay_fail(err, CAY_E_INTERNAL, -r, "read %s", path);
	return files_write(&here, path, buf_str(&data), data.len, 0644, err);
}

static int got_file(void *ctx, const char *path, int fd, size_t size, struct cay_error *err)
{
	const struct getting *g = ctx;
	const char *base = strrchr(path, '/');

	if (g->f->into_result)
		return keep_file(g->f->result, path, fd, size, err);
	/* A path of /tmp has no place below the caller's directory: its name does. */
	if (path[0] == '/')
		path = base + 1;
	if (!g->to)
		return save_file(".", path, fd, err);
	if (g->to_directory)
		return save_file(g->to, path, fd, err);
	base = strrchr(g->to, '/');
	if (!base)
		return save_file(".", g->to, fd, err);
	{
		char dir[PATH_MAX];

		(void)snprintf(dir, sizeof(dir), "%.*s", base == g->to ? 1 : (int)(base - g->to),
			       g->to);
		return save_file(dir, base + 1, fd, err);
	}
}

static bool is_directory(const char *path)
{
	struct stat st;

	return path &&
	       (path[strlen(path) - 1] == '/' || (stat(path, &st) == 0 && S_ISDIR(st.st_mode)));
}

static int count_file(void *ctx _unused_, const char *path _unused_, int fd _unused_,
		      size_t size _unused_, struct cay_error *err _unused_)
{
	return 0;
}

/* Several files can't have one name. */
static int expect_one(const struct island_files *files, const struct transfer *t,
		      struct cay_error *err)
{
	size_t n = 0;

	if (files_get(files, t->from, count_file, NULL, &n, err) < 0)
		return -1;
	if (n <= 1)
		return 0;
	(void)cay_fail(err, CAY_E_INVALID, 0, "--get %s: %zu files match, and %s is no directory",
		       t->from, n, t->to);
	return cay_hint(err, "write %s/ to have them in a directory", t->to);
}

static int files_out(void *ctx, const struct island_files *files, struct cay_error *err)
{
	struct run_files *f = ctx;

	for (size_t i = 0; i < f->spec->get.len; i++) {
		const struct transfer *t = &f->spec->get.items[i];
		struct getting g = {.f = f, .to = t->to, .to_directory = is_directory(t->to)};
		size_t n = 0;

		if (g.to_directory && mkdir(t->to, 0755) < 0 && errno != EEXIST)
			return cay_fail(err, CAY_E_INVALID, errno, "--get to %s", t->to);
		if (!f->into_result && t->to && !g.to_directory && expect_one(files, t, err) < 0)
			return -1;
		if (files_get(files, t->from, got_file, &g, &n, err) < 0)
			return -1;
		if (n == 0)
			cli_say("--get %s: no file matches", t->from);
	}
	return 0;
}

void run_files_attach(struct run_files *f, struct run *run, struct result *result)
{
	f->result = result;
	run->files_ctx = f;
	if (f->data || f->spec->put.len > 0)
		run->files_in = files_in;
	if (f->spec->get.len > 0)
		run->files_out = files_out;
}
