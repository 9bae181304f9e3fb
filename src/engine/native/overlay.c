#include "engine/overlay.h"

#include "base/attr.h"
#include "base/fd.h"
#include "engine/native/island.h"
#include "engine/native/mount.h"
#include "engine/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* The workspace's own owner and mode are those of the layer's top: as the directory's are. */
static int make_dirs(const struct island *i, int dir, int tree)
{
	static const char *const names[] = {OVERLAY_LOWER, OVERLAY_UPPER, OVERLAY_WORK,
					    OVERLAY_MERGED};
	struct stat st;

	if (fstat(tree, &st) < 0)
		return -errno;
	for (size_t n = 0; n < ARRAY_LEN(names); n++)
		if (mkdirat(dir, names[n], 0755) < 0)
			return -errno;
	if (fchmodat(dir, OVERLAY_UPPER, (st.st_mode & 0777) | 0700, 0) < 0)
		return -errno;
	if (i->many_ids && fchownat(dir, OVERLAY_UPPER, i->plan->uid, i->plan->gid, 0) < 0)
		return -errno;
	return 0;
}

/* Overlayfs wants paths: from here on, for this moment. */
static int mount_here(int dir)
{
	static const struct mount_option options[] = {{"userxattr", NULL},
						      {"lowerdir", OVERLAY_LOWER},
						      {"upperdir", OVERLAY_UPPER},
						      {"workdir", OVERLAY_WORK},
						      {0}};
	int fd;

	if (fchdir(dir) < 0)
		return -errno;
	fd = mount_new("overlay", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
	if (chdir("/") < 0) {
		fd_closep(&fd);
		return -errno;
	}
	return fd;
}

static int lay(struct island *i, int tree)
{
	_cleanup_(fd_closep) int dir = -1, fd = -1;
	int r;

	if (mkdirat(i->scratch_fd, SCRATCH_OVERLAY, 0755) < 0)
		return -errno;
	dir = openat(i->scratch_fd, SCRATCH_OVERLAY, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return -errno;
	r = make_dirs(i, dir, tree);
	if (r == 0)
		r = mount_place_own(tree, dir, OVERLAY_LOWER);
	if (r < 0)
		return r;
	fd = mount_here(dir);
	r = fd < 0 ? fd : mount_place_own(fd, dir, OVERLAY_MERGED);
	return r < 0 ? r : mount_clone_part(dir, OVERLAY_MERGED);
}

int overlay_lay(struct island *i, int *tree, struct cay_error *err)
{
	int fd = lay(i, *tree);

	if (fd < 0)
		return cay_fail(err, CAY_E_NOT_ENFORCEABLE, -fd,
				"lay an overlay over the workspace");
	(void)close(*tree);
	*tree = fd;
	return 0;
}
