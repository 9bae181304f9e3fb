/*
 * probe_images.c: what islands of images need of the file system that they are kept on: owners
 * that appear as the island's own, and a layer over them where the root is to be writable
 * (image_root.c). Both are tried on the store, or on the directory that it would be made in.
 */
#include "base/attr.h"
#include "base/fd.h"
#include "base/parse.h"
#include "engine/native/idmap.h"
#include "engine/native/mount.h"
#include "engine/native/probe.h"
#include "engine/sys.h"
#include "image/images.h"
#include "image/used.h"
#include "settings/settings.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TREE_ATTRS (MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)
#define BASE       "/tmp" /* in a mount namespace of its own */

static void describe(struct probe *p, const struct probe_store *s)
{
	char size[32], budget[32];

	(void)snprintf(p->how, sizeof(p->how), "%zu, %s%s%s, in %.160s", s->images,
		       format_size(s->bytes, size, sizeof(size)), s->budget_bytes ? " of " : "",
		       s->budget_bytes ? format_size(s->budget_bytes, budget, sizeof(budget)) : "",
		       s->store);
}

static int look_at(struct probe_store *ret, struct cay_error *err)
{
	struct settings settings;
	struct stat st;
	int r;

	settings_init(&settings);
	r = settings_load(&settings, err);
	if (r == 0) {
		ret->budget_bytes = settings.images_budget;
		r = images_dir(&settings, ret->store);
		if (r < 0)
			r = cay_fail(err, CAY_E_INVALID, -r, "find the image store");
	}
	settings_done(&settings);
	if (r == 0 && stat(ret->store, &st) == 0 && st.st_uid != geteuid()) {
		(void)cay_fail(err, CAY_E_POLICY, 0, "%.160s belongs to others", ret->store);
		return cay_hint(err, "each user has a store of their own: [images] store in the "
				     "settings says where");
	}
	return r < 0 ? -1 : images_used(ret->store, &ret->bytes, &ret->images, err);
}

/* The store, or what of the way to it there is. */
static int open_place(const char *store)
{
	char path[PATH_MAX];
	int fd = -1;

	(void)snprintf(path, sizeof(path), "%s", store);
	while (path[0] && (fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC)) < 0 &&
	       errno == ENOENT)
		*strrchr(path, '/') = '\0';
	return path[0] ? fd : open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
}

/* A copy of its mount, with owners shifted as a launcher would; an fd or -errno. */
static int shift(int place)
{
	const struct id_shift to = {.disk_uid = IMAGE_IDS_FIRST,
				    .disk_gid = IMAGE_IDS_FIRST,
				    .uid = 1,
				    .gid = 1,
				    .count = 1};
	_cleanup_(fd_closep) int by = idmap_open(&to), tree = -1;
	int r;

	if (by < 0)
		return by;
	tree = mount_clone(place, "");
	r = tree < 0 ? tree : idmap_mount(tree, TREE_ATTRS, by);
	return r < 0 ? r : take_fd(&tree);
}

static int become_root(uid_t uid, gid_t gid)
{
	char map[32];
	int r = fd_write_file_at(AT_FDCWD, "/proc/self/setgroups", "deny");

	(void)snprintf(map, sizeof(map), "0 %u 1", uid);
	if (r == 0)
		r = fd_write_file_at(AT_FDCWD, "/proc/self/uid_map", map);
	(void)snprintf(map, sizeof(map), "0 %u 1", gid);
	return r < 0 ? r : fd_write_file_at(AT_FDCWD, "/proc/self/gid_map", map);
}

/* As an ordinary user: a copy of our own namespace's mount. */
static int clone_here(const char *path)
{
	_cleanup_(fd_closep) int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	int tree = fd < 0 ? -errno : mount_clone(fd, ""), r;

	r = tree < 0 ? tree : mount_set_attrs(tree, TREE_ATTRS, true);
	if (r < 0)
		fd_closep(&tree);
	return r < 0 ? r : tree;
}

/* With a file made in it. */
static int lay_over(int tree)
{
	static const char *const dirs[] = {"lower", "upper", "work"};
	const struct mount_option options[] = {{"userxattr", NULL},
					       {"lowerdir", BASE "/lower"},
					       {"upperdir", BASE "/upper"},
					       {"workdir", BASE "/work"},
					       {0}};
	int scratch = mount_new("tmpfs", NULL, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV), over, r;

	if (scratch < 0)
		return scratch;
	if (sys_move_mount(scratch, "", AT_FDCWD, BASE, MOVE_MOUNT_F_EMPTY_PATH) < 0)
		return -errno;
	for (size_t i = 0; i < ARRAY_LEN(dirs); i++)
		if (mkdirat(scratch, dirs[i], 0755) < 0)
			return -errno;
	r = mount_place_own(tree, scratch, dirs[0]);
	over = r < 0 ? r : mount_new("overlay", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
	if (over < 0)
		return over;
	return openat(over, "cay-doctor", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600) < 0
		       ? -errno
		       : 0;
}

/* In a process that ends with all it mounted. tree: -1, and it makes its own. 0 or an errno. */
static int try_layer(int place, int tree)
{
	struct clone_args args = {.flags = CLONE_NEWUSER | CLONE_NEWNS, .exit_signal = SIGCHLD};
	uid_t uid = geteuid();
	gid_t gid = getegid();
	char path[PATH_MAX];
	int r = fd_real_path(place, path, sizeof(path));
	pid_t pid;

	if (r < 0)
		return -r;
	pid = (pid_t)sys_clone3(&args);
	if (pid == 0) {
		r = become_root(uid, gid);
		if (r == 0 && tree < 0)
			r = tree = clone_here(path);
		_exit(r < 0 ? -r : -lay_over(tree));
	}
	return probe_outcome(pid);
}

static void conclude(struct probe *p, int sys_errno, const char *todo)
{
	p->ok = sys_errno == 0;
	if (p->ok)
		return;
	(void)snprintf(p->why, sizeof(p->why), "%s", strerror(sys_errno));
	(void)snprintf(p->todo, sizeof(p->todo), "%s", todo);
}

size_t probe_images(struct probe *ret, bool many_ids, struct probe_store *ret_store)
{
	struct probe *store = ret, *owners = ret + 1, *layer = ret + 2;
	_cleanup_(fd_closep) int place = -1, tree = -1;
	struct cay_error err = {0};

	*ret_store = (struct probe_store){0};
	*store = (struct probe){.control = "images", .ok = look_at(ret_store, &err) == 0};
	*owners = (struct probe){.control = "owners in images"};
	*layer = (struct probe){.control = "writable images", .how = "overlay"};
	if (store->ok) {
		describe(store, ret_store);
	} else {
		(void)snprintf(store->why, sizeof(store->why), "%.255s", err.text);
		(void)snprintf(store->todo, sizeof(store->todo), "%s", err.hint);
	}
	place = ret_store->store[0] ? open_place(ret_store->store) : -ENOENT;
	if (place >= 0 && many_ids)
		tree = shift(place);
	(void)snprintf(owners->how, sizeof(owners->how), "%s",
		       many_ids ? "idmapped mount" : "one id: your own");
	conclude(owners,
		 place < 0              ? ENOENT
		 : many_ids && tree < 0 ? -tree
					: 0,
		 "owners of images' files appear as nobody, and no root can be writable: keep "
		 "images on ext4, xfs or btrfs by the setting [images] store");
	conclude(layer,
		 place < 0              ? ENOENT
		 : many_ids && tree < 0 ? -tree
					: try_layer(place, tree),
		 "only for --writable, and for mounts where an image has no place for them");
	return 3;
}
