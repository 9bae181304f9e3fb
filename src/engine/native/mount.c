#include "engine/native/mount.h"

#include "base/attr.h"
#include "base/fd.h"
#include "engine/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int mount_new(const char *type, const struct mount_option *options, unsigned attrs)
{
	_cleanup_(fd_closep) int fs = sys_fsopen(type, FSOPEN_CLOEXEC);
	int fd;

	if (fs < 0)
		return -errno;
	for (const struct mount_option *o = options; o && o->key; o++)
		if (sys_fsconfig(fs, o->value ? FSCONFIG_SET_STRING : FSCONFIG_SET_FLAG, o->key,
				 o->value) < 0)
			return -errno;
	if (sys_fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL) < 0)
		return -errno;
	fd = sys_fsmount(fs, FSMOUNT_CLOEXEC, attrs);
	return fd < 0 ? -errno : fd;
}

int mount_clone(int dir_fd, const char *path)
{
	int fd = sys_open_tree(dir_fd, path,
			       OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE | AT_EMPTY_PATH |
				       AT_SYMLINK_NOFOLLOW);

	return fd < 0 ? -errno : fd;
}

int mount_clone_part(int mount_fd, const char *name)
{
	int fd = sys_open_tree(mount_fd, name, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

int mount_set_attrs(int mount_fd, uint64_t attrs, bool recursive)
{
	struct mount_attr attr = {.attr_set = attrs};

	return sys_mount_setattr(mount_fd, recursive ? AT_RECURSIVE : 0, &attr) < 0 ? -errno : 0;
}

/* A place below root, whatever lies on the way: no symlink is followed. */
static int open_point(int root_fd, const char *target, int flags)
{
	return sys_openat2(root_fd, target, (uint64_t)(O_PATH | O_CLOEXEC | flags),
			   RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_SYMLINKS);
}

bool mount_point_is(int root_fd, const char *target)
{
	_cleanup_(fd_closep) int point = open_point(root_fd, target, O_DIRECTORY);

	return point >= 0;
}

int mount_place(int mount_fd, int root_fd, const char *target)
{
	_cleanup_(fd_closep) int point = open_point(root_fd, target, 0);

	if (point < 0)
		return -errno;
	return sys_move_mount(mount_fd, "", point, "",
			      MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0
		       ? -errno
		       : 0;
}

int mount_place_own(int mount_fd, int root_fd, const char *target)
{
	return sys_move_mount(mount_fd, "", root_fd, target, MOVE_MOUNT_F_EMPTY_PATH) < 0 ? -errno
											  : 0;
}

/* The directory name in dir, made where it is not there; no symlink is followed. */
static int enter_made(int dir, const char *name)
{
	int fd = openat(dir, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0 && errno == ENOENT && mkdirat(dir, name, 0755) == 0)
		fd = openat(dir, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int mount_point_make(int root_fd, const char *target, bool directory)
{
	_cleanup_(fd_closep) int dir = fcntl(root_fd, F_DUPFD_CLOEXEC, 3);
	char name[NAME_MAX + 1];

	if (dir < 0)
		return -errno;
	for (;;) {
		size_t len;
		bool last;
		int next;

		target += strspn(target, "/");
		len = strcspn(target, "/");
		last = target[len] == '\0';
		if (len == 0)
			return 0;
		if (len >= sizeof(name))
			return -ENAMETOOLONG;
		(void)snprintf(name, sizeof(name), "%.*s", (int)len, target);
		if (last && !directory)
			return mknodat(dir, name, S_IFREG | 0444, 0) < 0 && errno != EEXIST ? -errno
											    : 0;
		next = enter_made(dir, name);
		if (next < 0)
			return next;
		(void)close(dir);
		dir = next;
		target += len;
	}
}
