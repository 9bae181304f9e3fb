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

int mount_place(int mount_fd, int root_fd, const char *target)
{
	_cleanup_(fd_closep) int point =
		sys_openat2(root_fd, target, O_PATH | O_CLOEXEC,
			    RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_SYMLINKS);

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

int mount_point_make(int root_fd, const char *target, bool directory)
{
	char path[PATH_MAX];
	size_t len = strlen(target);

	if (len >= sizeof(path))
		return -ENAMETOOLONG;
	while (*target == '/')
		target++;
	for (const char *p = target; (p = strchr(p, '/')); p++) {
		(void)snprintf(path, sizeof(path), "%.*s", (int)(p - target), target);
		if (mkdirat(root_fd, path, 0755) < 0 && errno != EEXIST)
			return -errno;
	}
	if (directory)
		return mkdirat(root_fd, target, 0755) < 0 && errno != EEXIST ? -errno : 0;
	return mknodat(root_fd, target, S_IFREG | 0444, 0) < 0 && errno != EEXIST ? -errno : 0;
}
