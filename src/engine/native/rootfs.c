#include "engine/native/rootfs.h"

#include "base/attr.h"
#include "base/fd.h"
#include "engine/native/mount.h"
#include "engine/sys.h"
#include "image/host.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SEAL_ATTRS (MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)

/* Devices can be written to all the same, but the times of the host's nodes can't be set. */
#define DEVICE_ATTRS (MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC)

/* A copy of what the host has at path. Symlinks are followed: /etc/localtime may be one. */
static int open_copy(const char *path)
{
	char host[PATH_MAX];
	int tree;

	(void)snprintf(host, sizeof(host), "/%s", path);
	tree = sys_open_tree(AT_FDCWD, host, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
	return tree < 0 ? -errno : tree;
}

static int make_dir(int root, const char *path)
{
	return mkdirat(root, path, 0755) < 0 ? -errno : 0;
}

/* Our umask is 0 here: what is asked for is what is made. */
static int make_file(int root, const char *path)
{
	return mknodat(root, path, S_IFREG | 0444, 0) < 0 ? -errno : 0;
}

static int write_file(int root, const char *path, const char *text)
{
	_cleanup_(fd_closep) int fd =
		openat(root, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);

	return fd < 0 ? -errno : fd_write_all(fd, text, strlen(text));
}

/* A directory or file of the host; what the host has not is left out. */
static int place_tree(int root, const char *path, int (*make_point)(int, const char *))
{
	_cleanup_(fd_closep) int tree = open_copy(path);
	int r;

	if (tree < 0)
		return tree == -ENOENT ? 0 : tree;
	r = make_point(root, path);
	return r < 0 ? r : mount_place_own(tree, root, path);
}

/* The host's symlink, or what it has instead. */
static int place_link(int root, const char *path, int (*make_point)(int, const char *))
{
	char host[PATH_MAX], target[PATH_MAX];
	ssize_t n;

	(void)snprintf(host, sizeof(host), "/%s", path);
	n = readlink(host, target, sizeof(target) - 1);
	if (n < 0 && errno == EINVAL)
		return place_tree(root, path, make_point);
	if (n < 0)
		return errno == ENOENT ? 0 : -errno;
	target[n] = '\0';
	return symlinkat(target, root, path) < 0 ? -errno : 0;
}

/* 1 or 0, or -errno where that can't be said. */
static int host_has(const char *path)
{
	char host[PATH_MAX];

	(void)snprintf(host, sizeof(host), "/%s", path);
	if (access(host, F_OK) == 0)
		return 1;
	return errno == ENOENT || errno == ENOTDIR || errno == EACCES ? 0 : -errno;
}

static int place_item(int root, const struct host_item *item)
{
	switch (item->kind) {
	case HOST_DIR:
		return make_dir(root, item->path);
	case HOST_TREE:
		return place_tree(root, item->path, make_dir);
	case HOST_COPY:
		return place_tree(root, item->path, make_file);
	case HOST_ROOT_DIR:
		return place_link(root, item->path, make_dir);
	case HOST_LINK:
		return place_link(root, item->path, make_file);
	case HOST_SYMLINK:
		return symlinkat(item->text, root, item->path) < 0 ? -errno : 0;
	case HOST_FILE:
		return write_file(root, item->path, item->text);
	case HOST_DEVICE:
		return make_file(root, item->path); /* rootfs_devices() does the rest */
	case HOST_WHEN:
		return 0; /* rootfs_build()'s */
	}
	return -EINVAL;
}

static int make_tmpfs(void)
{
	static const struct mount_option options[] = {
		{"size", "1m"}, {"nr_inodes", "1024"}, {"mode", "0755"}, {0}};

	return mount_new("tmpfs", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
}

/* A tmpfs over base, and an fd of its root as something to place mounts on. */
static int open_root(const char *base)
{
	_cleanup_(fd_closep) int fs = make_tmpfs();

	if (fs < 0)
		return fs;
	if (sys_move_mount(fs, "", AT_FDCWD, base, MOVE_MOUNT_F_EMPTY_PATH) < 0)
		return -errno;
	return take_fd(&fs);
}

int rootfs_build(const char *base, int *ret_root_fd, struct cay_error *err)
{
	_cleanup_(fd_closep) int root = open_root(base);
	int wanted = 1;

	if (root < 0)
		return cay_fail(err, CAY_E_ENGINE, -root, "make the island's root");
	for (size_t i = 0; i < n_host_items; i++) {
		int r;

		if (host_items[i].kind == HOST_WHEN)
			wanted = host_has(host_items[i].path);
		r = wanted > 0 ? place_item(root, &host_items[i]) : wanted;
		if (r < 0)
			return cay_fail(err, CAY_E_ENGINE, -r, "lay out /%s of the host image",
					host_items[i].path);
	}
	*ret_root_fd = take_fd(&root);
	return 0;
}

static int place_dev(int dev, int root_fd, struct cay_error *err)
{
	int r = dev < 0 ? dev : mount_place(dev, root_fd, "dev");

	if (r == -ENOENT || r == -ELOOP || r == -ENOTDIR)
		return cay_fail(err, CAY_E_IMAGE, -r, "the image has no directory /dev");
	return r < 0 ? cay_fail(err, CAY_E_ENGINE, -r, "make /dev") : 0;
}

int rootfs_take_dev(int root_fd, struct cay_error *err)
{
	_cleanup_(fd_closep) int dev = open_copy("dev");

	return place_dev(dev, root_fd, err);
}

int rootfs_add_dev(int root_fd, struct cay_error *err)
{
	_cleanup_(fd_closep) int dev = make_tmpfs();
	int r = 0;

	if (place_dev(dev, root_fd, err) < 0)
		return -1;
	for (size_t i = 0; i < n_host_items && r == 0; i++)
		if (strncmp(host_items[i].path, "dev/", 4) == 0)
			r = place_item(root_fd, &host_items[i]);
	if (r == 0)
		r = mount_set_attrs(dev, SEAL_ATTRS, false);
	return r < 0 ? cay_fail(err, CAY_E_ENGINE, -r, "make /dev") : 0;
}

int rootfs_seal(int root_fd, bool writable, struct cay_error *err)
{
	uint64_t attrs = writable ? SEAL_ATTRS & ~MOUNT_ATTR_RDONLY : SEAL_ATTRS;
	int r = mount_set_attrs(root_fd, attrs, true);

	return r < 0 ? cay_fail(err, CAY_E_ENGINE, -r, "make the root read-only") : 0;
}

int rootfs_devices(int root_fd, struct cay_error *err)
{
	for (size_t i = 0; i < n_host_items; i++) {
		_cleanup_(fd_closep) int tree = -1;
		int r;

		if (host_items[i].kind != HOST_DEVICE)
			continue;
		tree = open_copy(host_items[i].path);
		r = tree < 0 ? tree : mount_set_attrs(tree, DEVICE_ATTRS, false);
		if (r == 0)
			r = mount_place_own(tree, root_fd, host_items[i].path);
		if (r < 0)
			return cay_fail(err, CAY_E_ENGINE, -r, "place /%s", host_items[i].path);
	}
	return 0;
}

int rootfs_enter(int root_fd, struct cay_error *err)
{
	char cwd[PATH_MAX];

	if (fchdir(root_fd) < 0 || sys_pivot_root(".", ".") < 0)
		return cay_fail(err, CAY_E_ENGINE, errno, "pivot into the island's root");
	/* The old root is now mounted over the new one: "." is still the new one's place. */
	if (sys_detach(".") < 0 || chdir("/") < 0)
		return cay_fail(err, CAY_E_ENGINE, errno, "detach the old root");
	/* glibc's getcwd() hides what the raw call says when the directory is out of reach. */
	if (syscall(SYS_getcwd, cwd, sizeof(cwd)) < 0 || strcmp(cwd, "/") != 0)
		return cay_fail(err, CAY_E_ENGINE, 0, "the working directory is not the new root");
	return 0;
}
