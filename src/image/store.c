#include "image/store_impl.h"

#include "base/attr.h"
#include "base/fd.h"
#include "image/images.h"
#include "image/staging.h"
#include "image/used.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* Of each layer, so that it can't take all the inodes there are. */
#define INODES_SHARE 2

/* What nobody else reads; and what the daemon's api does, as images.h has it. */
static const char *const own[] = {
	"configs", "manifests", "layers", "roots", "partial", "staging",
};
static const char *const shared[] = {"names", "records"};

int store_flock(int fd, int how)
{
	while (flock(fd, how) < 0)
		if (errno != EINTR)
			return -errno;
	return 0;
}

bool store_is_still(int fd, int dir_fd, const char *name)
{
	struct stat a, b;

	return fstat(fd, &a) == 0 && fstatat(dir_fd, name, &b, AT_SYMLINK_NOFOLLOW) == 0 &&
	       a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

int store_lock(const struct store *s, struct cay_error *err)
{
	int r = store_flock(s->lock, LOCK_EX);

	return r < 0 ? cay_fail(err, CAY_E_INTERNAL, -r, "lock the image store %s", s->path) : 0;
}

void store_unlock(const struct store *s)
{
	(void)store_flock(s->lock, LOCK_UN);
}

void store_unlockp(const struct store **s)
{
	if (*s)
		store_unlock(*s);
}

int store_fd(const struct store *s)
{
	return s->dir;
}

int store_subdir(const struct store *s, const char *name)
{
	int fd = openat(s->dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

/* Whether a file of /proc/self says that all of IMAGE_IDS are there to be given away. */
static bool has_ids(const char *map)
{
	unsigned long inside, outside, n;
	FILE *f = fopen(map, "re");
	bool found = false;

	while (f && !found && fscanf(f, "%lu %lu %lu", &inside, &outside, &n) == 3)
		found = inside <= IMAGE_IDS_FIRST && n >= IMAGE_IDS_FIRST - inside + IMAGE_IDS;
	if (f)
		(void)fclose(f);
	return found;
}

static int make_parents(const char *dir)
{
	char path[PATH_MAX];

	if ((size_t)snprintf(path, sizeof(path), "%s", dir) >= sizeof(path))
		return -ENAMETOOLONG;
	for (char *slash = path + 1; (slash = strchr(slash, '/')); slash++) {
		*slash = '\0';
		if (mkdir(path, 0755) < 0 && errno != EEXIST)
			return -errno;
		*slash = '/';
	}
	return mkdir(path, 0755) < 0 && errno != EEXIST ? -errno : 0;
}

/* Others' directories could be swapped under us. */
static int check_owner(const struct store *s, struct cay_error *err)
{
	struct stat st;

	if (fstat(s->dir, &st) < 0)
		return cay_fail(err, CAY_E_INTERNAL, errno, "look at the image store %s", s->path);
	if (st.st_uid == geteuid() && (st.st_mode & (S_IWGRP | S_IWOTH)) == 0)
		return 0;
	(void)cay_fail(err, CAY_E_POLICY, 0,
		       "the image store %s is not ours, or others may write to it", s->path);
	return cay_hint(err, "each user has a store of their own: [images] store in the settings "
			     "says where");
}

static int open_dirs(struct store *s, struct cay_error *err)
{
	int r = make_parents(s->path);

	if (r == 0) {
		s->dir = open(s->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		r = s->dir < 0 ? -errno : 0;
	}
	if (r == 0 && check_owner(s, err) < 0)
		return -1;
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(own); i++)
		if (mkdirat(s->dir, own[i], 0700) < 0 &&
		    (errno != EEXIST || fchmodat(s->dir, own[i], 0700, 0) < 0))
			r = -errno;
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(shared); i++)
		if (mkdirat(s->dir, shared[i], 0700) < 0 && errno != EEXIST)
			r = -errno;
	images_guard(s->path);
	if (r == 0) {
		s->lock = openat(s->dir, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
		r = s->lock < 0 ? -errno : 0;
	}
	return r < 0 ? cay_fail(err, CAY_E_INTERNAL, -r, "open the image store %s", s->path) : 0;
}

int store_open(const char *dir, uint64_t budget_bytes, struct store **ret, struct cay_error *err)
{
	_cleanup_(store_freep) struct store *s = calloc(1, sizeof(*s));

	if (!s)
		return cay_fail(err, CAY_E_INTERNAL, ENOMEM, "open the image store");
	s->dir = s->lock = -1;
	s->budget_bytes = budget_bytes;
	s->one_id =
		geteuid() != 0 || !has_ids("/proc/self/uid_map") || !has_ids("/proc/self/gid_map");
	if ((size_t)snprintf(s->path, sizeof(s->path), "%s", dir) >= sizeof(s->path))
		return cay_fail(err, CAY_E_INVALID, ENAMETOOLONG, "open the image store");
	if (open_dirs(s, err) < 0)
		return -1;
	staging_sweep(s);
	*ret = take_ptr(&s);
	return 0;
}

void store_free(struct store *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->n_held; i++)
		fd_closep(&s->held[i].fd);
	free(s->held);
	fd_closep(&s->lock);
	fd_closep(&s->dir);
	free(s);
}

void store_freep(struct store **s)
{
	store_free(*s);
}

static bool hold(struct store *s, const char *id, int *fd)
{
	struct held_layer *held = reallocarray(s->held, s->n_held + 1, sizeof(*held));

	if (!held)
		return false;
	s->held = held;
	held += s->n_held++;
	memcpy(held->id, id, sizeof(held->id));
	held->fd = take_fd(fd);
	return true;
}

bool store_has_layer(struct store *s, const char *diff_id)
{
	_cleanup_(fd_closep) int layers = -1, fd = -1;

	if (!image_id_ok(diff_id))
		return false;
	for (size_t i = 0; i < s->n_held; i++)
		if (strcmp(s->held[i].id, diff_id) == 0)
			return true;
	layers = store_subdir(s, "layers");
	if (layers < 0)
		return false;
	fd = openat(layers, diff_id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	/* Whoever removes it has it locked alone first, and looks at nothing else. */
	return fd >= 0 && store_flock(fd, LOCK_SH) == 0 && store_is_still(fd, layers, diff_id) &&
	       hold(s, diff_id, &fd);
}

int store_put(const struct store *s, const char *path, const void *data, size_t len,
	      struct cay_error *err)
{
	struct staging staging = STAGING_NONE;
	_cleanup_(fd_closep) int fd = -1;
	int r;

	if (staging_take(s, NULL, &staging, err) < 0)
		return -1;
	fd = openat(staging.fd, "file", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	r = fd < 0 ? -errno : fd_write_all(fd, data, len);
	if (r == 0 && (fsync(fd) < 0 || renameat(staging.fd, "file", s->dir, path) < 0))
		r = -errno;
	staging_drop(&staging);
	return r < 0 ? cay_fail(err, CAY_E_INTERNAL, -r, "write %s of the image store", path) : 0;
}

/* Calls fn for each name of a directory of the store. 0 or -errno. */
int store_each(const struct store *s, const char *subdir, store_each_fn *fn, void *ctx)
{
	DIR *d = fd_opendir(store_subdir(s, subdir));

	if (!d)
		return -errno;
	for (struct dirent *e; (e = readdir(d));)
		if (e->d_name[0] != '.')
			fn(ctx, dirfd(d), e->d_name);
	(void)closedir(d);
	return 0;
}

int store_left(const struct store *s, uint64_t *ret_bytes, struct cay_error *err)
{
	uint64_t used;
	size_t n;

	*ret_bytes = UINT64_MAX;
	if (s->budget_bytes == 0)
		return 0;
	if (images_used(s->path, &used, &n, err) < 0)
		return -1;
	*ret_bytes = s->budget_bytes > used ? s->budget_bytes - used : 0;
	return 0;
}

int store_room(const struct store *s, uint64_t *ret_bytes, uint64_t *ret_inodes,
	       struct cay_error *err)
{
	struct statvfs fs;
	uint64_t free_bytes;

	if (store_left(s, ret_bytes, err) < 0)
		return -1;
	if (fstatvfs(s->dir, &fs) < 0)
		return cay_fail(err, CAY_E_INTERNAL, errno,
				"see how much room the image store has");
	free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
	*ret_bytes = free_bytes < *ret_bytes ? free_bytes : *ret_bytes;
	/* Some file systems have as many as fit, and say 0. */
	*ret_inodes = fs.f_files > 0 ? fs.f_favail / INODES_SHARE : UINT64_MAX;
	return 0;
}
