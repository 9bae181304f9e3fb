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

static int clone_parts(int mount_fd, const char *const *names, size_t n, int *ret_fds)
{
	for (size_t i = 0; i < n; i++) {
		ret_fds[i] = sys_open_tree(mount_fd, names[i], OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
		if (ret_fds[i] < 0) {
			int saved = errno;

			while (i > 0)
				fd_closep(&ret_fds[--i]);
			return -saved;
		}
	}
	return 0;
}

int mount_clone_parts(int mount_fd, int root_fd, const char *point, const char *const *names,
		      size_t n, int *ret_fds)
{
	int r = clone_parts(mount_fd, names, n, ret_fds);
	char self[40];

	if (r != -EINVAL)
		return r;
	r = mount_place(mount_fd, root_fd, point);
	if (r < 0)
		return r;
	r = clone_parts(mount_fd, names, n, ret_fds);
	(void)snprintf(self, sizeof(self), "/proc/self/fd/%d", mount_fd);
	if (sys_detach(self) < 0 && r == 0) {
		r = -errno;
		for (size_t i = 0; i < n; i++)
			fd_closep(&ret_fds[i]);
	}
	return r;
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
