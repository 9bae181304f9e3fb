#include "engine/native/image_root.h"

#include "base/attr.h"
#include "base/fd.h"
#include "engine/native/idmap.h"
#include "engine/native/island.h"
#include "engine/native/layout.h"
#include "engine/native/mount.h"
#include "engine/native/rootfs.h"
#include "engine/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define ROOTS      "roots"
#define TREE_ATTRS (MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)

static int open_roots(const char *store, int *ret_dir, struct cay_error *err)
{
	_cleanup_(fd_closep) int dir = -1, roots = -1;
	struct stat st;

	dir = open(store, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir >= 0)
		roots = openat(dir, ROOTS, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (roots < 0 || fstat(roots, &st) < 0)
		return cay_fail(err, CAY_E_IMAGE, errno, "open the images of %s", store);
	if (st.st_uid != geteuid() || st.st_mode & 022)
		return cay_fail(err, CAY_E_IMAGE, 0,
				"%s/" ROOTS " can be changed by others: it is not used", store);
	*ret_dir = take_fd(&roots);
	return 0;
}

/* The lock on fd, if that is the image's root at this moment. 0 or -errno. */
static int lock_root(int roots, const char *id, int fd, struct stat *ret)
{
	struct stat now;

	if (flock(fd, LOCK_SH | LOCK_NB) < 0)
		return -errno;
	/* It may have been taken away in between, and the lock be one of what is being removed. */
	if (fstat(fd, ret) < 0 || fstatat(roots, id, &now, AT_SYMLINK_NOFOLLOW) < 0 ||
	    ret->st_ino != now.st_ino || ret->st_dev != now.st_dev)
		return -EWOULDBLOCK;
	return 0;
}

static int open_locked(int roots, const char *id, struct hostdir *h, struct cay_error *err)
{
	char path[PATH_MAX];
	struct stat st = {0};
	int r;

	h->fd = openat(roots, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (h->fd < 0)
		return cay_fail(err, CAY_E_IMAGE, errno, "open the image %.12s", id);
	r = lock_root(roots, id, h->fd, &st);
	if (r < 0)
		return cay_fail(err, CAY_E_IMAGE, r == -EWOULDBLOCK ? 0 : -r,
				"the image %.12s is being removed", id);
	r = fd_real_path(h->fd, path, sizeof(path));
	if (r < 0 || !(h->path = strdup(path)))
		return cay_fail(err, CAY_E_IMAGE, r < 0 ? -r : errno, "look at the image %.12s",
				id);
	h->dev = st.st_dev;
	h->ino = st.st_ino;
	h->directory = true;
	return 0;
}

void image_shifts_done(struct image_shifts *s)
{
	for (size_t n = 0; n < IMAGE_SHIFTS_MAX; n++)
		if (s->items[n].first_id)
			(void)close(s->items[n].by);
	*s = (struct image_shifts){0};
}

/* Borrowed; or -errno. */
static int find_shift(struct image_shifts *s, uint32_t first_id)
{
	const struct id_shift shift = {.disk_uid = IMAGE_IDS_FIRST,
				       .disk_gid = IMAGE_IDS_FIRST,
				       .uid = first_id,
				       .gid = first_id,
				       .count = IMAGE_IDS};
	int by;

	for (size_t n = 0; n < IMAGE_SHIFTS_MAX; n++)
		if (s->items[n].first_id == first_id)
			return s->items[n].by;
	by = idmap_open(&shift);
	if (by < 0)
		return by;
	if (s->items[s->next].first_id)
		(void)close(s->items[s->next].by);
	s->items[s->next].first_id = first_id;
	s->items[s->next].by = by;
	s->next = (s->next + 1) % IMAGE_SHIFTS_MAX;
	return by;
}

/* Owners that can't be shown are nobody's, as those of the host's own /usr are. */
static int shift_owners(struct hostdir *h, const struct plan *p, int by, struct cay_error *err)
{
	int r;

	if (by < 0)
		return cay_fail(err, CAY_E_ENGINE, -by, "map the owners of the image");
	h->tree = mount_clone(h->fd, "");
	if (h->tree < 0)
		return cay_fail(err, CAY_E_ENGINE, -h->tree, "copy the mount of the image");
	r = idmap_mount(h->tree, TREE_ATTRS, by);
	if ((r == -EINVAL || r == -EPERM || r == -EOPNOTSUPP) && p->writable) {
		(void)cay_fail(err, CAY_E_NOT_ENFORCEABLE, -r,
			       "the file system of the images can't show files as the island's");
		return cay_hint(err, "it does not support idmapped mounts, so no root can be "
				     "writable: keep images on ext4, xfs or btrfs by the setting "
				     "[images] store");
	}
	if (r == -EINVAL || r == -EPERM || r == -EOPNOTSUPP)
		r = idmap_mount(h->tree, TREE_ATTRS, -1);
	return r < 0 ? cay_fail(err, CAY_E_ENGINE, -r, "prepare the mount of the image") : 0;
}

int image_root_open(const char *store, const struct plan *p, uint32_t first_id,
		    struct image_shifts *shifts, struct hostdir *ret, struct cay_error *err)
{
	_cleanup_(hostdir_done) struct hostdir h = HOSTDIR_NONE;
	_cleanup_(fd_closep) int roots = -1;

	if (!store || !store[0])
		return cay_fail(err, CAY_E_IMAGE, 0, "there are no images here");
	if (open_roots(store, &roots, err) < 0 || open_locked(roots, plan_image(p), &h, err) < 0 ||
	    (first_id && shift_owners(&h, p, find_shift(shifts, first_id), err) < 0))
		return -1;
	*ret = h;
	h = HOSTDIR_NONE; /* the caller's from here on */
	return 0;
}

void image_root_let_go(const struct hostdir *h)
{
	if (h->fd >= 0)
		(void)flock(h->fd, LOCK_UN);
}

bool image_root_hold(const char *store, const struct plan *p, const struct hostdir *h)
{
	_cleanup_(fd_closep) int roots = -1;
	struct cay_error unused;
	struct stat st;

	return !plan_image(p) || (open_roots(store, &roots, &unused) == 0 &&
				  lock_root(roots, plan_image(p), h->fd, &st) == 0);
}

static bool needs_layer(const struct island *i, int tree)
{
	const struct plan *p = i->plan;

	for (uint32_t n = 0; n < p->n_mounts; n++)
		if (!layout_in_scratch(p, n) && !mount_point_is(tree, layout_target(p, n)))
			return true;
	return p->writable;
}

/*
 * The layer is part of the scratch, and counts to the same limit. Overlayfs wants paths, so the
 * scratch and the image are attached for it below the old root, with which they vanish.
 */
static int lay_layer(struct island *i, const char *base, int tree)
{
	static const char *const dirs[] = {"lower", "upper", "work", "root"};
	char paths[ARRAY_LEN(dirs)][64];
	const struct mount_option options[] = {{"userxattr", NULL},
					       {"lowerdir", paths[0]},
					       {"upperdir", paths[1]},
					       {"workdir", paths[2]},
					       {0}};
	int r;

	i->scratch_fd = layout_make_scratch(i->plan);
	if (i->scratch_fd < 0)
		return i->scratch_fd;
	i->layered = true;
	if (sys_move_mount(i->scratch_fd, "", AT_FDCWD, base, MOVE_MOUNT_F_EMPTY_PATH) < 0)
		return -errno;
	for (size_t n = 0; n < ARRAY_LEN(dirs); n++) {
		(void)snprintf(paths[n], sizeof(paths[n]), "%s/%s", base, dirs[n]);
		if (mkdirat(i->scratch_fd, dirs[n], 0755) < 0)
			return -errno;
	}
	r = mount_place_own(tree, i->scratch_fd, dirs[0]);
	if (r < 0)
		return r;
	i->root_fd = mount_new("overlay", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
	return i->root_fd < 0 ? i->root_fd : mount_place_own(i->root_fd, i->scratch_fd, dirs[3]);
}

int image_root_lay(struct island *i, const char *base, struct cay_error *err)
{
	_cleanup_(fd_closep) int tree = -1;
	int r = 0;

	if (hostdir_tree(i->image, ACCESS_READ, &tree, err) < 0)
		return -1;
	if (needs_layer(i, tree)) {
		r = lay_layer(i, base, tree);
		if (r < 0)
			return cay_fail(err, CAY_E_NOT_ENFORCEABLE, -r,
					"lay a writable layer over the image");
	} else {
		if (sys_move_mount(tree, "", AT_FDCWD, base, MOVE_MOUNT_F_EMPTY_PATH) < 0)
			return cay_fail(err, CAY_E_ENGINE, errno, "mount the image");
		i->root_fd = take_fd(&tree);
	}
	/* A template's comes later, whole: layout_devices(). */
	return i->in_template ? 0 : rootfs_add_dev(i->root_fd, err);
}
