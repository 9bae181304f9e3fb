#include "cli/cp.h"

#include "base/attr.h"
#include "base/fd.h"
#include "base/json.h"
#include "cli/cli.h"
#include "core/limits.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int make_dir(struct cp *c, const char *path, struct cay_error *err)
{
	_cleanup_(buf_done) struct buf at = {0};
	_cleanup_(json_freep) struct json *body = json_new_object(), *answer = NULL;
	struct remote_ask ask = {.method = "POST", .json = body};

	if (remote_sandbox_path(&at, c->sandbox, "/files/mkdir", err) < 0)
		return -1;
	ask.path = buf_str(&at);
	json_set_str(body, "path", path);
	if (remote_json(c->remote, &ask, &answer, err) == 0)
		return 0;
	return err->code == CAY_E_CONFLICT ? 0 : -1; /* it is there: into it */
}

static int put_file(struct cp *c, int fd, const struct stat *st, const char *to,
		    struct cay_error *err)
{
	_cleanup_(buf_done) struct buf at = {0};
	_cleanup_(json_freep) struct json *answer = NULL;
	struct remote_ask ask = {.method = "PUT",
				 .streamed = true,
				 .from_fd = fd,
				 .progress = cp_progress,
				 .progress_ctx = c};

	if (cp_path(c, "", to, &at, err) < 0 ||
	    buf_printf(&at, "&mode=0%03o", (unsigned)st->st_mode & 0777u) < 0)
		return -1;
	ask.path = buf_str(&at);
	c->name = to;
	if (remote_json(c->remote, &ask, &answer, err) < 0)
		return cay_wrap(err, "%.256s", to);
	c->files++;
	return 0;
}

static int put_entry(struct cp *c, int fd, const char *to, int depth, struct cay_error *err);

static int put_name(struct cp *c, int dir, const char *name, const char *to, int depth,
		    struct cay_error *err)
{
	_cleanup_(fd_closep) int fd = -1;
	char below[PATH_MAX];

	/* Never waits on a FIFO; links inside a tree are not followed. */
	fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0 && (errno == ELOOP || errno == ENXIO)) {
		c->left_out++;
		return 0;
	}
	if (fd < 0)
		return cay_fail(err, CAY_E_INVALID, errno, "open %.256s", name);
	if (snprintf(below, sizeof(below), "%s/%s", to, name) >= (int)sizeof(below))
		return cay_fail(err, CAY_E_INVALID, ENAMETOOLONG, "%.256s", to);
	return put_entry(c, fd, below, depth + 1, err);
}

static int put_dir(struct cp *c, int fd, const char *to, int depth, struct cay_error *err)
{
	int r = 0;
	DIR *d;

	if (depth >= TREE_DEPTH_MAX)
		return cay_fail(err, CAY_E_TOO_LARGE, ELOOP, "%.256s", to);
	if (make_dir(c, to, err) < 0)
		return cay_wrap(err, "%.256s", to);
	d = fd_opendir_again(fd);
	if (!d)
		return cay_fail(err, CAY_E_INVALID, errno, "read the directory for %.256s", to);
	for (struct dirent *e; r == 0 && (e = readdir(d));)
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			r = put_name(c, fd, e->d_name, to, depth, err);
	(void)closedir(d);
	return r;
}

static int put_entry(struct cp *c, int fd, const char *to, int depth, struct cay_error *err)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return cay_fail(err, CAY_E_INVALID, errno, "look at what goes to %.256s", to);
	if (S_ISDIR(st.st_mode))
		return put_dir(c, fd, to, depth, err);
	if (S_ISREG(st.st_mode))
		return put_file(c, fd, &st, to, err);
	if (depth == 0)
		return cay_fail(err, CAY_E_INVALID, 0, "neither a file nor a directory");
	c->left_out++;
	return 0;
}

/* Where it goes: below to, if that is a directory or written as one. */
static int find_target(struct cp *c, const char *from, const char *to, char path[PATH_MAX],
		       struct cay_error *err)
{
	_cleanup_(json_freep) struct json *entry = NULL;
	size_t len = strlen(to);
	bool written = len > 1 && to[len - 1] == '/';
	char name[NAME_MAX + 1];
	int r = cp_stat(c, to, &entry, err);

	if (r < 0)
		return -1;
	cp_name(from, name, sizeof(name));
	while (len > 1 && to[len - 1] == '/')
		len--;
	if ((r == 0 && cp_is_dir(entry)) || (r == 1 && written)) {
		if (r == 1 && make_dir(c, to, err) < 0)
			return -1;
		/* "dir/." has no name: its contents go there. */
		r = snprintf(path, PATH_MAX, "%.*s%s%s", (int)len, to,
			     len > 1 && name[0] ? "/" : "", name);
	} else {
		r = snprintf(path, PATH_MAX, "%.*s", (int)len, to);
	}
	return r >= PATH_MAX ? cay_fail(err, CAY_E_INVALID, ENAMETOOLONG, "%.256s", to) : 0;
}

int cp_up(struct cp *c, const char *from, const char *to, struct cay_error *err)
{
	_cleanup_(fd_closep) int fd = open(from, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	char path[PATH_MAX];

	if (fd < 0)
		return cay_fail(err, CAY_E_NOT_FOUND, errno, "%s", from);
	if (find_target(c, from, to, path, err) < 0)
		return -1;
	return put_entry(c, fd, path, 0, err);
}
