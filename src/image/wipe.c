#include "image/wipe.h"

#include "base/attr.h"
#include "base/fd.h"
#include "image/layer.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEPTH_MAX (LAYER_DEPTH_MAX + 8) /* staging has a few of its own above */

static int wipe(int dir_fd, const char *name, uint64_t *freed, unsigned depth);

/* Takes the fd over. */
static int empty(int fd, uint64_t *freed, unsigned depth)
{
	DIR *d = fd_opendir(fd);
	int r = 0;

	if (!d)
		return -errno;
	for (struct dirent *e; r == 0 && (e = readdir(d));)
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			r = wipe(dirfd(d), e->d_name, freed, depth);
	(void)closedir(d);
	return r;
}

/* Of a file with several names, the last one to go counts. */
static void count(int dir_fd, const char *name, uint64_t *freed)
{
	struct stat st;

	if (freed && fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	    (S_ISDIR(st.st_mode) || st.st_nlink == 1))
		*freed += (uint64_t)st.st_blocks * 512;
}

static int wipe(int dir_fd, const char *name, uint64_t *freed, unsigned depth)
{
	int fd, r;

	count(dir_fd, name, freed);
	if (unlinkat(dir_fd, name, 0) == 0 || errno == ENOENT)
		return 0;
	if (errno != EISDIR && errno != EPERM)
		return -errno;
	if (depth >= DEPTH_MAX)
		return -ELOOP;
	fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	r = empty(fd, freed, depth + 1);
	if (r == 0 && unlinkat(dir_fd, name, AT_REMOVEDIR) < 0)
		r = -errno;
	return r;
}

int wipe_at(int dir_fd, const char *name, uint64_t *freed)
{
	return wipe(dir_fd, name, freed, 0);
}

int wipe_inside(int dir_fd, uint64_t *freed)
{
	int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 ? -errno : empty(fd, freed, 0);
}
