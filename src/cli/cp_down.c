/*
 * What a sandbox's files are called is decided by whoever runs code there. A name becomes
 * one here only if it is a single one that is not ".." and would not act on a terminal; it
 * is made below a directory that is open already, and nothing is followed.
 */
#include "cli/cp.h"

#include "base/attr.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/parse.h"
#include "cli/cli.h"
#include "cli/remote_sandbox.h"
#include "cli/run_files.h"
#include "cli/sparse.h"
#include "core/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool name_ok(const char *name)
{
	size_t len = name ? strlen(name) : 0;

	if (len == 0 || len > NAME_MAX || strchr(name, '/') || strcmp(name, ".") == 0 ||
	    strcmp(name, "..") == 0)
		return false;
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)name[i] < 0x20 || name[i] == 0x7f)
			return false;
	return true;
}

/* "0755": what of it may be had. */
static mode_t mode_of(const struct json *entry)
{
	const char *text = json_str(json_get(entry, "mode"));
	mode_t mode = 0;

	if (!text || strlen(text) > 4 || strspn(text, "01234567") != strlen(text))
		return 0644;
	for (; *text; text++)
		mode = mode << 3 | (mode_t)(*text - '0');
	return mode & 0777;
}

/* A device or the like is never replaced: root's copy to /dev/null must not make a file of it. */
static int check_replaceable(int dir, const char *name)
{
	struct stat st;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (S_ISDIR(st.st_mode))
		return -EISDIR;
	return S_ISREG(st.st_mode) || S_ISLNK(st.st_mode) ? 0 : -EEXIST;
}

struct writing {
	struct cp *cp;
	int fd;
	uint64_t bytes; /* of this file */
};

static int on_body(void *ctx, const char *data, size_t len, struct cay_error *err)
{
	struct writing *w = ctx;
	int r = sparse_write(w->fd, &w->bytes, data, len);

	w->cp->taken += len;
	if (w->cp->taken > FILES_OUT_BYTES)
		return cay_fail(err, CAY_E_TOO_LARGE, 0, "more than %llu bytes", FILES_OUT_BYTES);
	return r < 0 ? cay_fail(err, CAY_E_INVALID, -r, "write") : 0;
}

static int fetch(struct cp *c, const char *from, int fd, struct cay_error *err)
{
	_cleanup_(buf_done) struct buf at = {0};
	struct writing w = {.cp = c, .fd = fd};
	struct remote_ask ask = {.method = "GET", .progress = cp_progress, .progress_ctx = c};
	int r;

	if (cp_path(c, "", from, &at, err) < 0)
		return -1;
	ask.path = buf_str(&at);
	c->name = from;
	if (remote_body(c->remote, &ask, on_body, &w, err) < 0)
		return -1;
	r = sparse_end(fd, w.bytes);
	return r < 0 ? cay_fail(err, CAY_E_INVALID, -r, "write") : 0;
}

/* Under another name until it is whole: a copy that was cut short leaves what was there. */
static int get_file(struct cp *c, const char *from, const struct json *entry, int dir,
		    const char *name, struct cay_error *err)
{
	_cleanup_(fd_closep) int fd = -1;
	char draft[48];
	int r = check_replaceable(dir, name);

	if (r < 0)
		return cay_fail(err, CAY_E_INVALID, -r, "%.256s", name);
	(void)snprintf(draft, sizeof(draft), ".cay-cp-%d-%zu", (int)getpid(), c->files);
	fd = openat(dir, draft, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
		    mode_of(entry) | 0200);
	if (fd < 0)
		return cay_fail(err, CAY_E_INVALID, errno, "make %.256s", name);
	r = fetch(c, from, fd, err);
	if (r == 0 && renameat(dir, draft, dir, name) < 0)
		r = cay_fail(err, CAY_E_INVALID, errno, "make %.256s", name);
	if (r < 0) {
		(void)unlinkat(dir, draft, 0);
		return remote_signal(c->remote) ? -1 : cay_wrap(err, "%.256s", from);
	}
	c->files++;
	return 0;
}

static int get_entry(struct cp *c, const char *from, const struct json *entry, int dir,
		     const char *name, int depth, struct cay_error *err);

static int get_names(struct cp *c, const char *from, int dir, int depth, struct cay_error *err)
{
	_cleanup_(buf_done) struct buf at = {0};
	_cleanup_(json_freep) struct json *all = NULL;
	const struct json *entries;
	int r = 0;

	if (cp_path(c, "/list", from, &at, err) < 0 ||
	    remote_list(c->remote, buf_str(&at), "entries", &all, err) < 0)
		return -1;
	entries = json_get(all, "entries");
	for (size_t i = 0; i < json_len(entries) && r == 0; i++) {
		const struct json *entry = json_at(entries, i);
		const char *name = json_str(json_get(entry, "name"));
		char below[PATH_MAX];

		/* One that is not UTF-8 is not what it looks like. */
		if (!name_ok(name) || json_get(entry, "name_base64")) {
			c->left_out++;
			continue;
		}
		if (snprintf(below, sizeof(below), "%s/%s", from, name) >= (int)sizeof(below))
			return cay_fail(err, CAY_E_INVALID, ENAMETOOLONG, "%.256s", from);
		r = get_entry(c, below, entry, dir, name, depth + 1, err);
	}
	return r;
}

static int get_dir(struct cp *c, const char *from, int dir, const char *name, int depth,
		   struct cay_error *err)
{
	_cleanup_(fd_closep) int below = -1;

	if (depth >= TREE_DEPTH_MAX)
		return cay_fail(err, CAY_E_TOO_LARGE, ELOOP, "%.256s", from);
	if (mkdirat(dir, name, 0777) < 0 && errno != EEXIST)
		return cay_fail(err, CAY_E_INVALID, errno, "make the directory %.256s", name);
	below = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (below < 0)
		return cay_fail(err, CAY_E_INVALID, errno, "open the directory %.256s", name);
	return get_names(c, from, below, depth, err);
}

static int get_entry(struct cp *c, const char *from, const struct json *entry, int dir,
		     const char *name, int depth, struct cay_error *err)
{
	const char *type = json_str(json_get(entry, "type"));

	if (c->files > FILES_OUT_MAX)
		return cay_fail(err, CAY_E_TOO_LARGE, 0, "more than %u files", FILES_OUT_MAX);
	if (cp_is_dir(entry))
		return get_dir(c, from, dir, name, depth, err);
	if (type && strcmp(type, "file") == 0)
		return get_file(c, from, entry, dir, name, err);
	if (depth == 0)
		return cay_fail(err, CAY_E_INVALID, 0, "%.256s: neither a file nor a directory",
				from);
	c->left_out++;
	return 0;
}

int cp_down(struct cp *c, const char *from, const char *to, struct cay_error *err)
{
	_cleanup_(json_freep) struct json *entry = NULL;
	_cleanup_(fd_closep) int dir = -1;
	struct destination dest = {.dir = -1};
	char name[NAME_MAX + 1];
	int r = cp_stat(c, from, &entry, err);

	if (r != 0)
		return -1;
	r = destination_open("copy to", to, &dest, err);
	dir = dest.dir;
	if (r < 0)
		return -1;
	cp_name(from, name, sizeof(name));
	/* "dir/." has no name: its contents go there. */
	if (!dest.name && !name[0])
		return cp_is_dir(entry)
			       ? get_names(c, from, dir, 0, err)
			       : cay_fail(err, CAY_E_INVALID, 0, "%.256s has no name", from);
	return get_entry(c, from, entry, dir, dest.name ? dest.name : name, 0, err);
}
