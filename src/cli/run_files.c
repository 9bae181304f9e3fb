#include "cli/run_files.h"

#include "base/attr.h"
#include "base/clock.h"
#include "base/fd.h"
#include "cli/cli.h"
#include "cli/files.h"
#include "cli/run_changes.h"
#include "engine/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define TICK_NS 500000

static int open_dir(const char *path)
{
	/* Relative names are often those of a workspace that programs write to: no links there. */
	int fd = sys_openat2(AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC,
			     path[0] == '/' ? 0 : RESOLVE_NO_SYMLINKS);

	return fd < 0 ? -errno : fd;
}

static int destination_failed(const char *what, const char *to, int r, struct cay_error *err)
{
	(void)cay_fail(err, CAY_E_INVALID, -r, "%s %s", what, to);
	if (r != -ELOOP)
		return -1;
	return cay_hint(err,
			"it goes through a symlink; name the directory itself, or its full path");
}

int destination_open(const char *what, const char *to, struct destination *ret,
		     struct cay_error *err)
{
	const char *slash = to ? strrchr(to, '/') : NULL;
	char parent[PATH_MAX] = ".";

	ret->dir = open_dir(to ? to : ".");
	if (ret->dir == -ENOENT && slash && !slash[1] && mkdir(to, 0755) == 0)
		ret->dir = open_dir(to);
	if (ret->dir >= 0)
		return 0;
	if ((ret->dir != -ENOENT && ret->dir != -ENOTDIR) || (slash && !slash[1]))
		return destination_failed(what, to, ret->dir, err);
	if (slash)
		(void)snprintf(parent, sizeof(parent), "%.*s", slash == to ? 1 : (int)(slash - to),
			       to);
	ret->name = slash ? slash + 1 : to;
	ret->dir = open_dir(parent);
	return ret->dir < 0 ? destination_failed(what, to, ret->dir, err) : 0;
}

int run_files_init(struct run_files *f, const struct spec *spec, const struct settings *settings,
		   bool into_result, struct cay_error *err)
{
	*f = (struct run_files){.spec = spec,
				.settings = settings,
				.into_result = into_result,
				.script = SCRIPT_NONE};
	for (size_t i = 0; i < SPEC_TRANSFERS_MAX; i++)
		f->destinations[i].dir = -1;
	for (size_t i = 0; i < spec->get.len; i++) {
		if (files_check_path(spec->get.items[i].from, err) < 0)
			return cay_wrap(err, "--get");
		f->gets_new |= files_glob_is_new(spec->get.items[i].from);
		if (!into_result && destination_open("--get to", spec->get.items[i].to,
						     &f->destinations[i], err) < 0)
			return -1;
	}
	for (size_t i = 0; i < spec->put.len; i++)
		if (spec->put.items[i].to && files_check_path(spec->put.items[i].to, err) < 0)
			return cay_wrap(err, "--put");
	return 0;
}

void run_files_done(struct run_files *f)
{
	for (size_t i = 0; f->spec && i < f->spec->get.len; i++)
		fd_closep(&f->destinations[i].dir);
	script_done(&f->script);
}

/* A path that islands may write to must not lead out of there: they could have made the link. */
static int check_leaving(const struct mount_rules *rules, const char *path, const char *real,
			 struct cay_error *err)
{
	char cwd[PATH_MAX], full[2 * PATH_MAX];

	if (path[0] == '/')
		(void)snprintf(full, sizeof(full), "%s", path);
	else
		(void)snprintf(full, sizeof(full), "%s/%s", getcwd(cwd, sizeof(cwd)) ? cwd : "",
			       path);
	for (size_t i = 0; i < rules->write.len; i++)
		if (path_is_within(full, rules->write.items[i]) &&
		    !path_is_within(real, rules->write.items[i]))
			return cay_fail(err, CAY_E_POLICY, 0,
					"a link leads out of %s, which programs write to",
					rules->write.items[i]);
	return 0;
}

static int check_link(const struct run_files *f, int fd, const char *path, struct cay_error *err)
{
	_cleanup_(mount_rules_done) struct mount_rules rules = {0};
	char real[PATH_MAX];
	struct stat st;

	if (fstat(fd, &st) < 0 || (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)))
		return 0; /* a pipe or terminal, by a name such as /dev/stdin */
	if (fd_real_path(fd, real, sizeof(real)) < 0)
		return cay_fail(err, CAY_E_INTERNAL, ENAMETOOLONG, "look at a file");
	if (cli_mount_rules(f->settings, &rules, err) < 0 ||
	    mount_check_forbidden(&rules, real, err) < 0)
		return -1;
	return check_leaving(&rules, path, real, err);
}

int run_files_open(const struct run_files *f, const char *path, int flags, const char *what,
		   int *ret_fd, struct cay_error *err)
{
	_cleanup_(fd_closep) int fd = sys_openat2(
		AT_FDCWD, path, O_RDONLY | O_CLOEXEC | (unsigned)flags, RESOLVE_NO_SYMLINKS);

	if (fd < 0 && errno == ELOOP) {
		fd = open(path, O_RDONLY | O_CLOEXEC | flags);
		if (fd >= 0 && check_link(f, fd, path, err) < 0)
			return cay_wrap(err, "%s %s", what, path);
	}
	if (fd < 0)
		return cay_fail(err, CAY_E_NOT_FOUND, errno, "%s %s", what, path);
	*ret_fd = take_fd(&fd);
	return 0;
}

const char *run_files_path(const struct run_files *f)
{
	return f->script.path[0] ? f->script.path : NULL;
}

/* Compilers go by the extension, and a script that is known by -l or its first line may have none.
 */
static bool needs_extension(const struct spec *spec)
{
	return spec->language->compile[0] && language_by_extension(spec->file) != spec->language;
}

/* What the program begins with, and what its file must be called then. */
static int find_entry(struct run_files *f, struct spec *spec, bool in_place, struct cay_error *err)
{
	struct script *s = &f->script;
	char name[NAME_MAX + 1];

	if (!spec->language->entry)
		return 0;
	if (script_entry(spec, buf_str(&s->text), s->text.len, name, err) < 0)
		return -1;
	if (!in_place && needs_extension(spec))
		script_path(spec, name, s->path);
	return 0;
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
	return snprintf(f->script.path, sizeof(f->script.path), "%s%s", ISLAND_WORKSPACE, rest) <
	       (int)sizeof(f->script.path);
}

static int read_script(struct run_files *f, const struct spec *spec, int fd, struct cay_error *err)
{
	int r = fd_read_all(fd, &f->script.text);

	return r < 0 ? cay_fail(err, r == -EFBIG ? CAY_E_TOO_LARGE : CAY_E_INVALID, -r,
				"read the script %s", spec->file)
		     : 0;
}

/* "#!" is no comment in the languages that are compiled, and in all of them this is one. */
static void hide_first_line(struct buf *text, const struct language *language)
{
	if (language->compile[0] && text->len >= 2 && memcmp(text->data, "#!", 2) == 0)
		memcpy(text->data, "//", 2);
}

/* Where it is run from its place: the host's own files, or the workspace. */
static int stays(struct run_files *f, const struct spec *spec, struct cay_error *err)
{
	if (spec->engine != ENGINE_DIRECT)
		return lies_in_workspace(f, spec->file);
	return realpath(spec->file, f->script.path)
		       ? 1
		       : cay_fail(err, CAY_E_NOT_FOUND, errno, "the script %s", spec->file);
}

int run_files_script(struct run_files *f, struct spec *spec, struct cay_error *err)
{
	struct script *s = &f->script;
	const char *slash = strrchr(spec->file, '/');
	_cleanup_(fd_closep) int fd = -1;
	struct stat st;
	int in_place;

	if (run_files_open(f, spec->file, 0, "the script", &fd, err) < 0)
		return -1;
	if (fstat(fd, &st) < 0 || S_ISDIR(st.st_mode))
		return cay_fail(err, CAY_E_INVALID, EISDIR, "the script %s", spec->file);
	in_place = stays(f, spec, err);
	if (in_place < 0)
		return -1;
	if ((!in_place || spec->language->entry) && read_script(f, spec, fd, err) < 0)
		return -1;
	if (!in_place) {
		script_path(spec,
			    needs_extension(spec) ? spec->language->file_name
			    : slash               ? slash + 1
						  : spec->file,
			    s->path);
		hide_first_line(&s->text, spec->language);
		s->data = buf_str(&s->text);
		s->len = s->text.len;
	}
	return find_entry(f, spec, in_place, err);
}

/* Until files that are changed now are newer than those that are there: a tick of the kernel's. */
static uint64_t await_tick(void)
{
	const struct timespec some = {.tv_nsec = TICK_NS};
	uint64_t now = clock_file_now_ns();

	while (!clock_file_is_over(now))
		(void)nanosleep(&some, NULL);
	return now;
}

static int files_in(void *ctx, const struct island_files *files, struct cay_error *err)
{
	struct run_files *f = ctx;

	for (size_t i = 0; i < f->spec->put.len; i++) {
		const struct transfer *t = &f->spec->put.items[i];
		_cleanup_(fd_closep) int fd = -1;

		if (run_files_open(f, t->from, O_NONBLOCK, "--put", &fd, err) < 0 ||
		    files_put(files, fd, t->from, t->to, err) < 0)
			return -1;
	}
	if (f->script.data &&
	    files_write(files, f->script.path, f->script.data, f->script.len, 0644, err) < 0)
		return -1;
	f->since_ns = f->gets_new ? await_tick() : 0;
	return 0;
}

/* One --get: where its files go. */
struct getting {
	struct run_files *f;
	const struct destination *to;
	uint64_t bytes;
};

static int keep_file(struct getting *g, const char *path, int fd, size_t size,
		     struct cay_error *err)
{
	_cleanup_(buf_done) struct buf data = BUF(FILES_JSON_BYTES);
	struct result *r = g->f->result;
	struct file_out *files, *file;
	int e;

	g->bytes += size;
	if (g->bytes > FILES_JSON_BYTES) {
		(void)cay_fail(err, CAY_E_TOO_LARGE, 0, "--get: more than %llu bytes for a result",
			       (unsigned long long)FILES_JSON_BYTES);
		return cay_hint(err, "without --json files are brought out as files");
	}
	e = fd_read_all(fd, &data);
	files = e < 0 ? NULL : reallocarray(r->files, r->n_files + 1, sizeof(*files));
	if (!files)
		return cay_fail(err, CAY_E_INTERNAL, e < 0 ? -e : ENOMEM, "keep %s", path);
	r->files = files;
	file = &files[r->n_files++];
	file->size = data.len;
	file->path = strdup(path);
	file->data = buf_take(&data);
	return file->path && file->data ? 0
					: cay_fail(err, CAY_E_INTERNAL, ENOMEM, "keep %s", path);
}

static bool has_controls(const char *name)
{
	for (; *name; name++)
		if ((unsigned char)*name < 0x20 || *name == 0x7f)
			return true;
	return false;
}

static int save_file(const struct destination *to, const char *path, int fd, size_t size,
		     struct cay_error *err)
{
	/* A name that would act on a terminal is not brought into the caller's directory. */
	if (!to->name && has_controls(path)) {
		cli_say("--get: left out a file with control characters in its name");
		return 0;
	}
	/* A path of /tmp has no place below the caller's directory: its name does. */
	if (path[0] == '/')
		path = strrchr(path, '/') + 1;
	return files_save(to->dir, to->name ? to->name : path, fd, size, err);
}

int run_files_save(const struct run_files *f, size_t nth, const char *path, int fd, size_t size,
		   struct cay_error *err)
{
	return save_file(&f->destinations[nth], path, fd, size, err);
}

static int got_file(void *ctx, const char *path, int fd, size_t size, struct cay_error *err)
{
	struct getting *g = ctx;

	return g->f->into_result ? keep_file(g, path, fd, size, err)
				 : save_file(g->to, path, fd, size, err);
}

static int count_file(void *ctx _unused_, const char *path _unused_, int fd _unused_,
		      size_t size _unused_, struct cay_error *err _unused_)
{
	return 0;
}

/* Several files can't have one name. */
int run_files_expect(const struct run_files *f, size_t nth, size_t n, struct cay_error *err)
{
	const struct transfer *t = &f->spec->get.items[nth];

	if (f->into_result || !f->destinations[nth].name || n <= 1)
		return 0;
	(void)cay_fail(err, CAY_E_INVALID, 0, "--get %s: %zu files match, and %s is no directory",
		       t->from, n, t->to);
	return cay_hint(err, "write %s/ to have them in a directory", t->to);
}

static int expect_one(const struct run_files *f, size_t nth, const struct island_files *files,
		      struct cay_error *err)
{
	size_t n = 0;

	if (files_get(files, f->spec->get.items[nth].from, f->since_ns, count_file, NULL, &n, err) <
	    0)
		return -1;
	return run_files_expect(f, nth, n, err);
}

static int files_out(void *ctx, const struct island_files *files, struct cay_error *err)
{
	struct run_files *f = ctx;
	struct getting g = {.f = f};

	for (size_t i = 0; i < f->spec->get.len; i++) {
		const struct transfer *t = &f->spec->get.items[i];
		size_t n = 0;

		g.to = &f->destinations[i];
		if (!f->into_result && g.to->name && expect_one(f, i, files, err) < 0)
			return -1;
		if (files_get(files, t->from, f->since_ns, got_file, &g, &n, err) < 0)
			return -1;
		if (n == 0)
			cli_say("--get %s: no file matches", t->from);
	}
	return f->changes ? run_changes_out(f->changes, files, f->result, err) : 0;
}

void run_files_attach(struct run_files *f, struct run *run, struct result *result)
{
	f->result = result;
	run->files_ctx = f;
	if (f->script.data || f->spec->put.len > 0 || f->gets_new)
		run->files_in = files_in;
	if (f->spec->get.len > 0 || f->changes)
		run->files_out = files_out;
}
