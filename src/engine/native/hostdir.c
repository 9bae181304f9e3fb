#include "engine/native/hostdir.h"

#include "base/attr.h"
#include "base/buf.h"
#include "base/fd.h"
#include "engine/mount_names.h"
#include "engine/native/idmap.h"
#include "engine/native/mount.h"
#include "engine/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

void hostdir_done(struct hostdir *h)
{
	fd_closep(&h->fd);
	fd_closep(&h->tree);
	free(h->path);
	h->path = NULL;
}

/* The real path of what exists of path, and the rest behind it as it is. */
static bool resolve(const char *path, char out[PATH_MAX])
{
	char head[PATH_MAX], real[PATH_MAX];
	size_t len = strlen(path);

	if (len >= sizeof(head))
		return false;
	memcpy(head, path, len + 1);
	while (!realpath(head, real)) {
		char *slash = strrchr(head, '/');

		if (!slash)
			return false;
		slash[slash == head] = '\0';
		if (slash == head && !realpath(head, real))
			return false;
	}
	len = strcmp(head, "/") == 0 ? 0 : strlen(head);
	return mount_name_join(out, PATH_MAX, real, path + len);
}

static int resolve_list(struct strv *list)
{
	size_t n = list->len; /* those added are resolved already */
	char real[PATH_MAX];
	int r = 0;

	for (size_t i = 0; i < n && r == 0; i++)
		if (resolve(list->items[i], real) && strcmp(real, list->items[i]) != 0)
			r = strv_add(list, real);
	return r;
}

int hostdir_resolve_rules(struct mount_rules *rules, struct cay_error *err)
{
	int r = resolve_list(&rules->forbid);

	return r < 0 ? cay_fail(err, CAY_E_INTERNAL, -r, "resolve the mount rules") : 0;
}

/* A directory that settings name for a runtime: by identity, not by name. */
static int check_operator(const struct mount_rules *rules, const struct hostdir *h,
			  struct cay_error *err)
{
	for (size_t i = 0; i < rules->operators.len; i++) {
		struct stat st;

		if (stat(rules->operators.items[i], &st) == 0 && st.st_dev == h->dev &&
		    st.st_ino == h->ino)
			return 0;
	}
	return cay_fail(err, CAY_E_POLICY, 0, "%s is no runtime's directory in the settings",
			h->path);
}

static int judge(const struct mount_rules *rules, const struct plan_mount *m, struct hostdir *h,
		 struct cay_error *err)
{
	if (m->kind == MOUNT_OPERATOR)
		return check_operator(rules, h, err);
	if (mount_check(rules, h->path, (enum access)m->access, err) < 0)
		return -1;
	return mount_check_names(rules, h->fd, h->path, m->access == ACCESS_OVERLAY, err);
}

int hostdir_open(const struct mount_rules *rules, const char *source, const struct plan_mount *m,
		 struct hostdir *ret, struct cay_error *err)
{
	_cleanup_(hostdir_done) struct hostdir h = HOSTDIR_NONE;
	char path[PATH_MAX];
	struct stat st;
	int r;

	/* /proc/PID/root and the like are doors to elsewhere: no magic links. */
	h.fd = sys_openat2(AT_FDCWD, source, O_PATH | O_CLOEXEC, RESOLVE_NO_MAGICLINKS);
	if (h.fd < 0 && errno == ELOOP)
		return cay_fail(err, CAY_E_POLICY, 0, "mount of %s goes through a magic link",
				source);
	if (h.fd < 0)
		return cay_fail(
			err, errno == ENOENT || errno == ENOTDIR ? CAY_E_NOT_FOUND : CAY_E_POLICY,
			errno, "mount of %s", source);
	r = fd_real_path(h.fd, path, sizeof(path));
	if (r < 0 || fstat(h.fd, &st) < 0 || path[0] != '/' || !(h.path = strdup(path)))
		return cay_fail(err, CAY_E_INTERNAL, r < 0 ? -r : errno, "look at %s", source);
	h.dev = st.st_dev;
	h.ino = st.st_ino;
	h.directory = S_ISDIR(st.st_mode);
	if (judge(rules, m, &h, err) < 0)
		return -1;
	if (!h.directory) {
		(void)cay_fail(err, CAY_E_INVALID, 0, "%s is no directory", h.path);
		return cay_hint(err, "files go in by --put");
	}
	*ret = h;
	h = HOSTDIR_NONE; /* the caller's from here on */
	return 0;
}

static uint64_t attrs_of(enum access access)
{
	uint64_t attrs = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;

	return access == ACCESS_WRITE ? attrs : attrs | MOUNT_ATTR_RDONLY;
}

int hostdir_idmap(struct hostdir *h, enum access access, bool shift, uid_t island_uid,
		  gid_t island_gid, struct cay_error *err)
{
	struct id_shift owner = {.uid = island_uid, .gid = island_gid, .count = 1};
	_cleanup_(fd_closep) int by = -1;
	struct stat st;
	int r;

	if (h->tree < 0)
		h->tree = mount_clone(h->fd, "");
	if (h->tree < 0)
		return cay_fail(err, CAY_E_ENGINE, -h->tree, "copy the mount of %s", h->path);
	if (fstat(h->tree, &st) < 0)
		return cay_fail(err, CAY_E_ENGINE, errno, "look at %s", h->path);
	owner.disk_uid = st.st_uid;
	owner.disk_gid = st.st_gid;
	by = shift ? idmap_open(&owner) : -1;
	if (shift && by < 0)
		return cay_fail(err, CAY_E_ENGINE, -by, "map the owner of %s", h->path);
	r = idmap_mount(h->tree, attrs_of(access), by);
	if (r == 0)
		return 0;
	if (r != -EINVAL && r != -EPERM && r != -EOPNOTSUPP)
		return cay_fail(err, CAY_E_ENGINE, -r, "prepare the mount of %s", h->path);
	(void)cay_fail(err, CAY_E_NOT_ENFORCEABLE, -r,
		       "the file system of %s can't show its files as the island's user's",
		       h->path);
	return cay_hint(err, "it does not support idmapped mounts: copy the files in by --put");
}

int hostdir_tree(const struct hostdir *h, int access, int *ret_tree, struct cay_error *err)
{
	_cleanup_(fd_closep) int again = -1, tree = -1;
	struct stat st;
	int r;

	if (h->tree >= 0) {
		*ret_tree = fcntl(h->tree, F_DUPFD_CLOEXEC, 3);
		return *ret_tree < 0 ? cay_fail(err, CAY_E_ENGINE, errno, "mount %s", h->path) : 0;
	}
	/*
	 * The judged fd belongs to another mount namespace and can't be cloned from
	 * here. This one can; what counts is that it is the same directory.
	 */
	again = sys_openat2(AT_FDCWD, h->path, O_PATH | O_CLOEXEC,
			    RESOLVE_NO_MAGICLINKS | RESOLVE_NO_SYMLINKS);
	if (again < 0 || fstat(again, &st) < 0)
		return cay_fail(err, CAY_E_POLICY, errno, "mount of %s", h->path);
	if (st.st_dev != h->dev || st.st_ino != h->ino)
		return cay_fail(err, CAY_E_POLICY, 0, "%s was replaced while it was mounted",
				h->path);
	tree = mount_clone(again, "");
	r = tree < 0 ? tree : mount_set_attrs(tree, attrs_of((enum access)access), true);
	if (r < 0)
		return cay_fail(err, CAY_E_ENGINE, -r, "mount %s", h->path);
	*ret_tree = take_fd(&tree);
	return 0;
}
