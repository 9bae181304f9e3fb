#include "image/merge.h"

#include "base/attr.h"
#include "base/fd.h"
#include "base/text.h"
#include "image/layer.h"
#include "image/wipe.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct merging {
	bool one_id;
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
static int copy_file(const struct merging *m, int layer, int root, const char *name)
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
	to = openat(root, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
		    st.st_mode & 0777);
	if (to < 0)
		return -errno;
	r = copy_data(from, to, st.st_size);
	if (r == 0 && !m->one_id && fchown(to, st.st_uid, st.st_gid) < 0)
		r = -errno;
	if (r == 0 && futimens(to, (struct timespec[]){st.st_atim, st.st_mtim}) < 0)
		r = -errno;
	return r;
}

static int merge_file(const struct merging *m, int layer, int root, const char *name)
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
static int open_dir(int root, const char *name, bool *ret_new, int *ret_fd)
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
	return r < 0 ? r : *ret_fd < 0 ? -errno : 0;
}

static int copy_attributes(const struct merging *m, const struct stat *st, int fd)
{
	if ((!m->one_id && fchown(fd, st->st_uid, st->st_gid) < 0) ||
	    fchmod(fd, st->st_mode & 01777) < 0 ||
	    futimens(fd, (struct timespec[]){st->st_atim, st->st_mtim}) < 0)
		return -errno;
	return 0;
}

/* One that the layer only implies stays as a lower one has it. */
static int finish_dir(const struct merging *m, int layer, const struct stat *before, bool is_new,
		      int fd)
{
	struct stat st;

	if (!is_new && faccessat(layer, LAYER_IMPLIED, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return copy_attributes(m, before, fd);
	return fstat(layer, &st) < 0 ? -errno : copy_attributes(m, &st, fd);
}

static int merge_dir(struct merging *m, int layer, int root, bool is_new, unsigned depth);

static int merge_subdir(struct merging *m, int layer, int root, const char *name, unsigned depth)
{
	_cleanup_(fd_closep) int from =
		openat(layer, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	_cleanup_(fd_closep) int to = -1;
	bool is_new;
	int r;

	if (from < 0)
		return -errno;
	if (depth >= LAYER_DEPTH_MAX)
		return -ELOOP;
	r = open_dir(root, name, &is_new, &to);
	return r < 0 ? r : merge_dir(m, from, to, is_new, depth + 1);
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

int merge_layers(const int *layers, size_t n, int root_fd, bool one_id, struct cay_error *err)
{
	struct merging m = {.one_id = one_id};
	int r = 0;

	for (size_t i = 0; r == 0 && i < n; i++)
		r = merge_dir(&m, layers[i], root_fd, false, 0);
	if (r == 0)
		return 0;
	(void)cay_fail(err, r == -ENOSPC || r == -EDQUOT ? CAY_E_TOO_LARGE : CAY_E_INTERNAL, -r,
		       "merge '%.200s' of a layer", m.name);
	text_flatten(err->text, strlen(err->text));
	return -1;
}
