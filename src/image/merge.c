/*
 * merge.c: one layer after the other is walked, and beside it the root.
 *
 * A directory that a layer has no entry for is whatever lower layers have there, and that may be a
 * link to a directory: bin/x goes to usr/bin/x where bin leads there, as Docker and containerd have
 * it. Such links are looked up in the root and not beyond, and after all else of the layer, so that
 * what they lead to is the same in whatever order a directory is read.
 */
#include "image/merge.h"

#include "base/attr.h"
#include "base/fd.h"
#include "base/strv.h"
#include "base/text.h"
#include "image/wipe.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct merging {
	const struct layer_limits *limits;
	uint64_t bytes, made;    /* of what is not linked: directories and copies */
	int top;                 /* of the root */
	char path[PATH_MAX];     /* from there to the directory at hand; "" */
	struct strv links;       /* paths of what is behind links, for later */
	bool later;              /* it is that time */
	char name[NAME_MAX + 1]; /* what failed */
};

static bool begins(const char *name, const char *with)
{
	return strncmp(name, with, strlen(with)) == 0;
}

static int blame(struct merging *m, const char *name, int r)
{
	if (r < 0 && !m->name[0])
		(void)snprintf(m->name, sizeof(m->name), "%s", name);
	return r;
}

static int charge(struct merging *m, uint64_t bytes)
{
	if (bytes > m->limits->bytes || m->bytes > m->limits->bytes - bytes ||
	    m->made >= m->limits->entries)
		return -ENOSPC;
	m->bytes += bytes;
	m->made++;
	return 0;
}

/* What lower layers have here and this one has not: before anything of this one comes. */
static int apply_whiteouts(struct merging *m, DIR *layer, int root)
{
	int r = 0;

	for (struct dirent *e; r == 0 && (e = readdir(layer));) {
		if (!begins(e->d_name, LAYER_WHITEOUT))
			continue;
		if (strcmp(e->d_name, LAYER_OPAQUE) == 0)
			r = wipe_inside(root, NULL);
		else if (!begins(e->d_name, LAYER_RESERVED))
			r = wipe_at(root, e->d_name + sizeof(LAYER_WHITEOUT) - 1, NULL);
		r = blame(m, e->d_name, r);
	}
	rewinddir(layer);
	return r;
}

/* Holes stay holes. */
static int copy_data(int from, int to, off_t size)
{
	off_t at = 0, end;

	while ((at = lseek(from, at, SEEK_DATA)) >= 0) {
		end = lseek(from, at, SEEK_HOLE);
		if (end < 0)
			return -errno;
		while (at < end) {
			off_t out = at;
			ssize_t n = copy_file_range(from, &at, to, &out, (size_t)(end - at), 0);

			if (n <= 0)
				return n < 0 ? -errno : -EIO;
		}
	}
	if (errno != ENXIO)
		return -errno;
	return ftruncate(to, size) < 0 ? -errno : 0;
}

/* Only where a file has all the names that it can have. */
static int copy_file(struct merging *m, int layer, int root, const char *name)
{
	_cleanup_(fd_closep) int from =
		openat(layer, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	_cleanup_(fd_closep) int to = -1;
	struct stat st;
	int r;

	if (from < 0 || fstat(from, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EMLINK;
	r = charge(m, (uint64_t)st.st_blocks * 512);
	if (r < 0)
		return r;
	to = openat(root, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
		    st.st_mode & 0777);
	if (to < 0)
		return -errno;
	r = copy_data(from, to, st.st_size);
	if (r == 0 && !m->limits->one_id && fchown(to, st.st_uid, st.st_gid) < 0)
		r = -errno;
	if (r == 0 && futimens(to, (struct timespec[]){st.st_atim, st.st_mtim}) < 0)
		r = -errno;
	return r;
}

static int merge_file(struct merging *m, int layer, int root, const char *name)
{
	int r = linkat(layer, name, root, name, 0) < 0 ? -errno : 0;

	if (r == -EEXIST) {
		r = wipe_at(root, name, NULL);
		if (r == 0 && linkat(layer, name, root, name, 0) < 0)
			r = -errno;
	}
	return r == -EMLINK ? copy_file(m, layer, root, name) : r;
}

/* A directory that is there stays, with what is in it; anything else makes room. */
static int open_dir(struct merging *m, int root, const char *name, bool *ret_new, int *ret_fd)
{
	const int how = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
	int r = 0;

	*ret_new = mkdirat(root, name, 0700) == 0;
	if (!*ret_new && errno != EEXIST)
		return -errno;
	*ret_fd = openat(root, name, how);
	if (*ret_fd < 0 && (errno == ENOTDIR || errno == ELOOP)) {
		r = unlinkat(root, name, 0) < 0 || mkdirat(root, name, 0700) < 0 ? -errno : 0;
		*ret_new = true;
		*ret_fd = r < 0 ? -1 : openat(root, name, how);
	}
	if (r == 0 && *ret_fd < 0)
		r = -errno;
	return r == 0 && *ret_new ? charge(m, LAYER_BLOCK) : r;
}

static int copy_attributes(const struct merging *m, const struct stat *st, int fd)
{
	if ((!m->limits->one_id && fchown(fd, st->st_uid, st->st_gid) < 0) ||
	    fchmod(fd, st->st_mode & 01777) < 0 ||
	    futimens(fd, (struct timespec[]){st->st_atim, st->st_mtim}) < 0)
		return -errno;
	return 0;
}

static bool is_implied(int layer)
{
	return faccessat(layer, LAYER_IMPLIED, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* One that the layer only implies stays as a lower one has it. */
static int finish_dir(const struct merging *m, int layer, const struct stat *before, bool is_new,
		      int fd)
{
	struct stat st;

	if (!is_new && is_implied(layer))
		return copy_attributes(m, before, fd);
	return fstat(layer, &st) < 0 ? -errno : copy_attributes(m, &st, fd);
}

static int merge_dir(struct merging *m, int layer, int root, bool is_new, unsigned depth);

/* 1: a directory of the root. 0: the link leads to none; or -errno. */
static int follow(const struct merging *m, int *ret_fd)
{
	int fd = fd_open_within(m->top, m->path, O_RDONLY | O_DIRECTORY,
				RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);

	if (fd < 0)
		return fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP ? 0 : fd;
	*ret_fd = fd;
	return 1;
}

/* m->path leads there. */
static int merge_onto(struct merging *m, int from, int root, const char *name, unsigned depth)
{
	_cleanup_(fd_closep) int to = -1;
	bool is_new = false;
	struct stat st;
	int r = 0;

	if (fstatat(root, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode) &&
	    is_implied(from)) {
		if (!m->later)
			return strv_add(&m->links, m->path);
		r = follow(m, &to);
	}
	if (r == 0)
		r = open_dir(m, root, name, &is_new, &to);
	return r < 0 ? r : merge_dir(m, from, to, is_new, depth + 1);
}

static int merge_subdir(struct merging *m, int layer, int root, const char *name, unsigned depth)
{
	_cleanup_(fd_closep) int from =
		openat(layer, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	size_t len = strlen(m->path);
	int r;

	if (from < 0)
		return -errno;
	if (depth >= LAYER_DEPTH_MAX)
		return -ELOOP;
	if (len + strlen(name) + 2 > sizeof(m->path))
		return -ENAMETOOLONG;
	(void)snprintf(m->path + len, sizeof(m->path) - len, "%s%s", len > 0 ? "/" : "", name);
	r = merge_onto(m, from, root, name, depth);
	m->path[len] = '\0';
	return r;
}

static int merge_entry(struct merging *m, int layer, int root, const struct dirent *e,
		       unsigned depth)
{
	struct stat st;
	bool dir = e->d_type == DT_DIR;

	if (begins(e->d_name, LAYER_WHITEOUT) || strcmp(e->d_name, ".") == 0 ||
	    strcmp(e->d_name, "..") == 0)
		return 0;
	if (e->d_type == DT_UNKNOWN) {
		if (fstatat(layer, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			return -errno;
		dir = S_ISDIR(st.st_mode);
	}
	return blame(m, e->d_name,
		     dir ? merge_subdir(m, layer, root, e->d_name, depth)
			 : merge_file(m, layer, root, e->d_name));
}

/* Both fds stay the caller's. */
static int merge_dir(struct merging *m, int layer, int root, bool is_new, unsigned depth)
{
	struct stat before;
	DIR *d = fd_opendir_again(layer);
	int r = 0;

	if (!d)
		return -errno;
	if (fstat(root, &before) < 0)
		r = -errno;
	if (r == 0 && !is_new)
		r = apply_whiteouts(m, d, root);
	for (struct dirent *e; r == 0 && (e = readdir(d));)
		r = merge_entry(m, layer, root, e, depth);
	(void)closedir(d);
	return r < 0 ? r : finish_dir(m, layer, &before, is_new, root);
}

/* The same directory of both, which a link of the root is in. */
static int merge_link(struct merging *m, int layer, const char *path)
{
	_cleanup_(fd_closep) int from = -1, to = -1;
	const char *leaf = strrchr(path, '/');
	unsigned depth = 0;

	for (const char *p = path; (p = strchr(p, '/')); p++)
		depth++;
	(void)snprintf(m->path, sizeof(m->path), "%.*s", leaf ? (int)(leaf - path) : 0, path);
	leaf = leaf ? leaf + 1 : path;
	from = fd_open_within(layer, leaf == path ? "." : m->path, O_RDONLY | O_DIRECTORY,
			      RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
	to = fd_open_within(m->top, leaf == path ? "." : m->path, O_RDONLY | O_DIRECTORY,
			    RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
	if (from < 0 || to < 0)
		return blame(m, leaf, from < 0 ? from : to);
	return blame(m, leaf, merge_subdir(m, from, to, leaf, depth));
}

static int merge_layer(struct merging *m, int layer)
{
	int r;

	m->later = false;
	m->path[0] = '\0';
	r = merge_dir(m, layer, m->top, false, 0);
	m->later = true;
	strv_sort(&m->links);
	for (size_t i = 0; r == 0 && i < m->links.len; i++)
		r = merge_link(m, layer, m->links.items[i]);
	strv_done(&m->links);
	return r;
}

int merge_layers(const int *layers, size_t n, int root_fd, const struct layer_limits *limits,
		 uint64_t *ret_bytes, struct cay_error *err)
{
	struct merging m = {.limits = limits, .top = root_fd};
	int r = 0;

	for (size_t i = 0; r == 0 && i < n; i++)
		r = merge_layer(&m, layers[i]);
	if (r == 0) {
		*ret_bytes = m.bytes;
		return 0;
	}
	(void)cay_fail(err, r == -ENOSPC || r == -EDQUOT ? CAY_E_TOO_LARGE : CAY_E_INTERNAL, -r,
		       "merge '%.200s' of a layer", m.name);
	text_flatten(err->text, strlen(err->text));
	return r == -ENOSPC ? cay_hint(err, LAYER_ROOM_HINT) : -1;
}
