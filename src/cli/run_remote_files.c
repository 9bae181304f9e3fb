#include "cli/run_remote_files.h"

#include "base/attr.h"
#include "base/fd.h"
#include "base/glob.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/remote_request.h"
#include "cli/spec_options.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

const char *run_remote_glob(const char *glob)
{
	char full[PATH_MAX];
	int n;

	if (path_is_within(glob, ISLAND_WORKSPACE))
		glob += strlen(ISLAND_WORKSPACE) + strspn(glob + strlen(ISLAND_WORKSPACE), "/");
	while (strncmp(glob, "./", 2) == 0)
		glob += 2 + strspn(glob + 2, "/");
	n = snprintf(full, sizeof(full), "%s/%s", ISLAND_WORKSPACE, glob);
	return glob[0] && glob[0] != '/' && n < (int)sizeof(full) && island_path_ok(full) ? glob
											  : NULL;
}

/* A --put under way. */
struct putting {
	struct json *files;
	size_t n;
	uint64_t bytes;
};

static int put_file(struct putting *p, int fd, const char *path, const struct stat *st,
		    struct cay_error *err)
{
	char *data = NULL;
	size_t len;
	int r;

	if (p->n++ >= REQUEST_FILES_MAX)
		return cay_fail(err, CAY_E_TOO_LARGE, 0, "--put: more than %d files for a daemon",
				REQUEST_FILES_MAX);
	if (p->bytes + (uint64_t)st->st_size > REMOTE_FILES_MAX)
		return cay_fail(err, CAY_E_TOO_LARGE, 0, "--put: more than %u bytes for a daemon",
				REMOTE_FILES_MAX);
	if (spec_read_all(fd, REMOTE_FILES_MAX - (size_t)p->bytes, path, &data, &len, err) < 0)
		return -1;
	p->bytes += len;
	r = remote_request_file(p->files, path, data, len, st->st_mode & 0111, err);
	free(data);
	return r;
}

static int put_entry(struct putting *p, int fd, const char *path, int depth, struct cay_error *err);

static int put_dir(struct putting *p, int fd, const char *path, int depth, struct cay_error *err)
{
	DIR *d = fd_opendir_again(fd);
	int r = 0;

	if (!d)
		return cay_fail(err, CAY_E_INVALID, errno, "--put: read %s", path);
	for (struct dirent *e; r == 0 && (e = readdir(d));) {
		_cleanup_(fd_closep) int sub = -1;
		char below[PATH_MAX];

		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		sub = openat(fd, e->d_name,
			     O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
		if (sub < 0 && (errno == ELOOP || errno == ENXIO))
			continue;
		if (snprintf(below, sizeof(below), "%s/%s", path, e->d_name) >= (int)sizeof(below))
			r = cay_fail(err, CAY_E_INVALID, ENAMETOOLONG, "--put: %.256s", path);
		else if (sub < 0)
			r = cay_fail(err, CAY_E_INVALID, errno, "--put: open %.256s", below);
		else
			r = put_entry(p, sub, below, depth + 1, err);
	}
	(void)closedir(d);
	return r;
}

static int put_entry(struct putting *p, int fd, const char *path, int depth, struct cay_error *err)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return cay_fail(err, CAY_E_INVALID, errno, "--put: look at %s", path);
	if (S_ISDIR(st.st_mode))
		return depth < TREE_DEPTH_MAX
			       ? put_dir(p, fd, path, depth, err)
			       : cay_fail(err, CAY_E_TOO_LARGE, ELOOP, "--put: %.256s", path);
	if (!S_ISREG(st.st_mode))
		return depth > 0 ? 0
				 : cay_fail(err, CAY_E_INVALID, 0,
					    "--put: %s is neither a file nor a directory", path);
	return put_file(p, fd, path, &st, err);
}

/* The name it gets: as files_put() decides it. */
static int target_of(int fd, const struct transfer *t, char path[PATH_MAX], struct cay_error *err)
{
	const char *slash = strrchr(t->from, '/'), *name = slash ? slash + 1 : t->from;
	char real[PATH_MAX];

	if (!t->to && (!name[0] || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)) {
		int r = fd_real_path(fd, real, sizeof(real));

		if (r < 0)
			return cay_fail(err, CAY_E_INTERNAL, -r, "--put %s", t->from);
		name = strrchr(real, '/') + 1;
	}
	(void)snprintf(path, PATH_MAX, "%s", t->to ? t->to : name);
	return 0;
}

int run_remote_put(const struct run_files *f, struct json *request, struct cay_error *err)
{
	struct putting p = {.files = json_new_array()};
	int r = 0;

	for (size_t i = 0; i < f->spec->put.len && r == 0; i++) {
		const struct transfer *t = &f->spec->put.items[i];
		_cleanup_(fd_closep) int fd = -1;
		char path[PATH_MAX];

		r = run_files_open(f, t->from, O_NONBLOCK, "--put", &fd, err);
		if (r == 0)
			r = target_of(fd, t, path, err);
		if (r == 0)
			r = put_entry(&p, fd, path, 0, err);
	}
	json_set(request, "files", p.files);
	return r;
}

/* Files out */

static int data_fd(const struct json *file, int *ret_fd, size_t *ret_size, struct cay_error *err)
{
	_cleanup_(buf_done) struct buf data = BUF(FILES_JSON_BYTES);
	_cleanup_(fd_closep) int fd = -1;
	const char *text = json_str(json_get(file, "data"));
	int r;

	if (!text || text_decode_base64(&data, text, strlen(text)) < 0)
		return cay_fail(err, CAY_E_ENGINE, 0, "--get: the daemon's answer has no file");
	fd = memfd_create("cay-get", MFD_CLOEXEC);
	r = fd < 0 ? -errno : fd_write_all(fd, buf_str(&data), data.len);
	if (r < 0)
		return cay_fail(err, CAY_E_INTERNAL, -r, "--get: keep a file");
	*ret_fd = take_fd(&fd);
	*ret_size = data.len;
	return 0;
}

static int save(struct run_files *f, size_t nth, const char *path, const struct json *file,
		struct cay_error *err)
{
	_cleanup_(fd_closep) int fd = -1;
	size_t size = 0;

	if (data_fd(file, &fd, &size, err) < 0)
		return -1;
	return run_files_save(f, nth, path, fd, size, err);
}

static const char *path_of(const struct json *file, const char *glob)
{
	const char *path = json_str(json_get(file, "path"));

	return path && glob_matches(glob, path) ? path : NULL;
}

static int get_one(struct run_files *f, size_t nth, const struct json *files, struct cay_error *err)
{
	const struct transfer *t = &f->spec->get.items[nth];
	const char *glob = run_remote_glob(t->from);
	size_t n = 0;

	for (size_t i = 0; i < json_len(files); i++)
		n += path_of(json_at(files, i), glob) != NULL;
	if (run_files_expect(f, nth, n, err) < 0)
		return -1;
	for (size_t i = 0; i < json_len(files) && !f->into_result; i++) {
		const char *path = path_of(json_at(files, i), glob);

		if (path && save(f, nth, path, json_at(files, i), err) < 0)
			return -1;
	}
	if (n == 0)
		cli_say("--get %s: no file matches", t->from);
	return 0;
}

int run_remote_get(struct run_files *f, const struct json *result, struct cay_error *err)
{
	const struct json *files = json_get(result, "files");

	for (size_t i = 0; i < f->spec->get.len; i++)
		if (get_one(f, i, files, err) < 0)
			return -1;
	return 0;
}
