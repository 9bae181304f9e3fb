#include "image/staging.h"

#include "base/attr.h"
#include "base/fd.h"
#include "image/store_impl.h"
#include "image/wipe.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define TRIES_MAX 1000

/*
 * 1: it is ours. 0: it went away between two of these calls, by whoever had it, or by a sweep that
 * came before we had it locked: once more.
 */
static int try_take(int parent, const char *name, int *ret_fd)
{
	_cleanup_(fd_closep) int fd = -1;
	int r;

	if (mkdirat(parent, name, 0700) < 0 && errno != EEXIST)
		return -errno;
	fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	r = store_flock(fd, LOCK_EX);
	if (r < 0 || !store_is_still(fd, parent, name))
		return r;
	r = wipe_inside(fd, NULL);
	if (r < 0)
		return r;
	*ret_fd = take_fd(&fd);
	return 1;
}

static int name_it(const char *name, char ret[STAGING_NAME_SIZE])
{
	uint64_t random;

	if (!name && getrandom(&random, sizeof(random), 0) < 0)
		return -errno;
	if (!name)
		(void)snprintf(ret, STAGING_NAME_SIZE, "x-%016llx", (unsigned long long)random);
	else if ((size_t)snprintf(ret, STAGING_NAME_SIZE, "%s", name) >= STAGING_NAME_SIZE)
		return -ENAMETOOLONG;
	return 0;
}

int staging_take(const struct store *s, const char *name, struct staging *ret,
		 struct cay_error *err)
{
	_cleanup_(fd_closep) int parent = store_subdir(s, "staging");
	int r = parent < 0 ? parent : name_it(name, ret->name);

	ret->fd = -1;
	for (int i = 0; r == 0 && i < TRIES_MAX; i++)
		r = try_take(parent, ret->name, &ret->fd);
	if (r <= 0)
		return cay_fail(err, CAY_E_INTERNAL, r < 0 ? -r : EAGAIN,
				"begin in the image store %s", s->path);
	ret->parent = take_fd(&parent);
	return 0;
}

int staging_tree(const struct store *s, const struct staging *staging, int *ret_fd,
		 struct cay_error *err)
{
	const int how = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
	_cleanup_(fd_closep) int fd = -1;

	if (mkdirat(staging->fd, STAGING_TREE, 0755) == 0)
		fd = openat(staging->fd, STAGING_TREE, how);
	if (fd < 0 || (!s->one_id && fchown(fd, IMAGE_IDS_FIRST, IMAGE_IDS_FIRST) < 0))
		return cay_fail(err, CAY_E_INTERNAL, errno, "begin a tree in the image store");
	*ret_fd = take_fd(&fd);
	return 0;
}

/* What can't be removed is swept another time. */
void staging_drop(struct staging *s)
{
	if (s->fd < 0)
		return;
	if (wipe_inside(s->fd, NULL) == 0)
		(void)unlinkat(s->parent, s->name, AT_REMOVEDIR);
	fd_closep(&s->fd);
	fd_closep(&s->parent);
}

void staging_sweep(const struct store *s)
{
	DIR *d = fd_opendir(store_subdir(s, "staging"));

	if (!d)
		return;
	for (struct dirent *e; (e = readdir(d));) {
		struct staging left = STAGING_NONE;

		if (e->d_name[0] == '.' || strlen(e->d_name) >= sizeof(left.name))
			continue;
		left.fd = openat(dirfd(d), e->d_name,
				 O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (left.fd < 0 || store_flock(left.fd, LOCK_EX | LOCK_NB) < 0 ||
		    !store_is_still(left.fd, dirfd(d), e->d_name)) {
			fd_closep(&left.fd);
			continue;
		}
		(void)snprintf(left.name, sizeof(left.name), "%s", e->d_name);
		left.parent = fcntl(dirfd(d), F_DUPFD_CLOEXEC, 3);
		staging_drop(&left);
	}
	(void)closedir(d);
}
