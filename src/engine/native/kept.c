#include "engine/native/kept.h"

#include "base/attr.h"
#include "base/fd.h"
#include "engine/sys.h"
#include "engine/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define IMAGE ".img"
#define NEW   ".new"
#define GONE  ".gone"

#define NAME_SIZE (ID_SIZE + 8)

static const char *file_of(const char *name, const char *suffix, char out[NAME_SIZE])
{
	(void)snprintf(out, NAME_SIZE, "%.*s%s", ID_SIZE, name, suffix);
	return out;
}

int kept_open_dir(int state_dir, int *ret, struct cay_error *err)
{
	_cleanup_(fd_closep) int dir = -1;
	struct stat st;

	if (mkdirat(state_dir, KEPT_DIR, 0700) < 0 && errno != EEXIST)
		return cay_fail(err, CAY_E_INTERNAL, errno, "make the directory of workspaces");
	dir = openat(state_dir, KEPT_DIR, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0 || fstat(dir, &st) < 0)
		return cay_fail(err, CAY_E_INTERNAL, errno, "open the directory of workspaces");
	if (st.st_uid != geteuid() || st.st_mode & 077) {
		(void)cay_fail(err, CAY_E_POLICY, 0,
			       "the directory of workspaces is not ours alone");
		return cay_hint(err,
				"something put another one in the place of %s in the state "
				"directory",
				KEPT_DIR);
	}
	*ret = take_fd(&dir);
	return 0;
}

enum kept_kind kept_look(int dir, const char *name)
{
	char file[NAME_SIZE];
	struct stat st;

	if (fstatat(dir, file_of(name, IMAGE, file), &st, AT_SYMLINK_NOFOLLOW) == 0)
		return KEPT_IMAGE;
	return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 ? KEPT_PLAIN : KEPT_NONE;
}

int kept_make_plain(int dir, const char *name, bool many_ids, struct cay_error *err)
{
	if (mkdirat(dir, name, 0755) < 0 ||
	    (many_ids && fchownat(dir, name, KEPT_ID, KEPT_ID, AT_SYMLINK_NOFOLLOW) < 0))
		return cay_fail(err, CAY_E_ENGINE, errno, "make the workspace");
	return 0;
}

void kept_drop_new(int dir, const char *name)
{
	char file[NAME_SIZE];

	(void)unlinkat(dir, file_of(name, NEW, file), 0);
}

static bool is_ours(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
	       st.st_nlink == 1 && !(st.st_mode & 077);
}

/* What mkfs put there is removed while nobody but us has seen it; from then on it has its name. */
static int first_time(int dir, const char *name, int tree)
{
	char from[NAME_SIZE], to[NAME_SIZE];

	if (unlinkat(tree, "lost+found", AT_REMOVEDIR) < 0 && errno != ENOENT)
		return -errno;
	return renameat(dir, file_of(name, NEW, from), dir, file_of(name, IMAGE, to)) < 0 ? -errno
											  : 0;
}

/*
 * The lock is of the open file, which the loop device has from here on: it lasts as long
 * as the device, whoever dies. So no image is ever mounted twice, which would destroy it.
 */
static int mount_image(int dir, const char *name, int *ret_tree)
{
	_cleanup_(fd_closep) int image = -1, tree = -1;
	char file[NAME_SIZE];
	bool fresh = false;
	int r = 0;

	image = openat(dir, file_of(name, IMAGE, file), O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	if (image < 0 && errno == ENOENT) {
		fresh = true;
		image = openat(dir, file_of(name, NEW, file), O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	}
	if (image < 0)
		return -errno;
	if (!is_ours(image))
		return -EPERM;
	if (flock(image, LOCK_EX | LOCK_NB) < 0)
		return errno == EWOULDBLOCK ? -EBUSY : -errno;
	tree = kept_image_mount(image);
	r = tree < 0 ? tree : fresh ? first_time(dir, name, tree) : 0;
	if (r == 0)
		*ret_tree = take_fd(&tree);
	return r;
}

static int open_plain(int dir, const char *name, struct hostdir *h)
{
	char path[PATH_MAX];
	struct stat st;
	int r;

	h->fd = openat(dir, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (h->fd < 0 || fstat(h->fd, &st) < 0)
		return -errno;
	h->dev = st.st_dev;
	h->ino = st.st_ino;
	r = fd_real_path(h->fd, path, sizeof(path));
	if (r < 0)
		return r;
	h->path = strdup(path);
	return h->path ? 0 : -ENOMEM;
}

int kept_open(int dir, const char *name, struct hostdir *ret, enum kept_kind *ret_kind,
	      struct cay_error *err)
{
	struct hostdir h = HOSTDIR_NONE;
	enum kept_kind kind = kept_look(dir, name) == KEPT_PLAIN ? KEPT_PLAIN : KEPT_IMAGE;
	int r;

	if (dir < 0)
		return cay_fail(err, CAY_E_INVALID, 0, "no workspaces are kept here");
	h.directory = true;
	if (kind == KEPT_PLAIN) {
		r = open_plain(dir, name, &h);
	} else {
		h.path = strdup(name);
		r = h.path ? mount_image(dir, name, &h.tree) : -ENOMEM;
	}
	if (r < 0) {
		hostdir_done(&h);
		return cay_fail(err, r == -EBUSY ? CAY_E_CONFLICT : CAY_E_ENGINE, -r,
				"open the workspace of %s", name);
	}
	*ret = h;
	*ret_kind = kind;
	return 0;
}

void kept_copy_done(struct kept_copy *c)
{
	fd_closep(&c->from);
	fd_closep(&c->to);
	fd_closep(&c->replaced);
}

/* An image that nobody has mounted, and nobody can as long as this is open; -errno. */
static int open_unused(int dir, const char *name)
{
	char file[NAME_SIZE];
	_cleanup_(fd_closep) int fd =
		openat(dir, file_of(name, IMAGE, file), O_RDWR | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	if (!is_ours(fd))
		return -EPERM;
	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		return errno == EWOULDBLOCK ? -EBUSY : -errno;
	return take_fd(&fd);
}

static int open_both(int dir, const char *from, const char *to, struct kept_copy *c)
{
	char file[NAME_SIZE];

	c->from = open_unused(dir, from);
	if (c->from < 0)
		return c->from;
	c->replaced = open_unused(dir, to);
	if (c->replaced < 0 && c->replaced != -ENOENT)
		return c->replaced;
	kept_drop_new(dir, to);
	c->to = openat(dir, file_of(to, NEW, file),
		       O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	return c->to < 0 ? -errno : 0;
}

int kept_copy_begin(int dir, const char *from, const char *to, struct kept_copy *ret,
		    struct cay_error *err)
{
	struct kept_copy c = KEPT_COPY_NONE;
	struct stat st;
	int r;

	if (kept_look(dir, from) == KEPT_PLAIN || kept_look(dir, to) == KEPT_PLAIN)
		return cay_fail(err, CAY_E_UNSUPPORTED, 0,
				"a workspace that is a plain directory can't be copied");
	r = open_both(dir, from, to, &c);
	if (r == 0 && fstat(c.from, &st) < 0)
		r = -errno;
	if (r == 0 && kept_check_room(dir, (uint64_t)st.st_size, err) < 0) {
		kept_copy_done(&c);
		kept_drop_new(dir, to);
		return -1;
	}
	if (r == 0) {
		*ret = c;
		return 0;
	}
	kept_copy_done(&c);
	if (r == -EBUSY)
		return cay_fail(err, CAY_E_CONFLICT, EBUSY, "the workspace is in use");
	if (r == -ENOENT)
		return cay_fail(err, CAY_E_CONFLICT, 0, "nothing was ever kept there");
	return cay_fail(err, CAY_E_ENGINE, -r, "copy the workspace");
}

int kept_copy_end(int dir, const char *to, struct cay_error *err)
{
	char from[NAME_SIZE], name[NAME_SIZE];

	if (renameat(dir, file_of(to, NEW, from), dir, file_of(to, IMAGE, name)) < 0 ||
	    fsync(dir) < 0)
		return cay_fail(err, CAY_E_ENGINE, errno, "keep the copy");
	return 0;
}

bool kept_remove(int dir, const char *name)
{
	char file[NAME_SIZE];

	kept_drop_new(dir, name);
	(void)unlinkat(dir, file_of(name, IMAGE, file), 0);
	return renameat(dir, name, dir, file_of(name, GONE, file)) == 0;
}

static bool listed(const char *name, const char (*keep)[ID_SIZE], size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(keep[i], name) == 0)
			return true;
	return false;
}

/* The sandbox whose a file here is, and what the file is of it; false: it is none of ours. */
static bool split(const char *file, char name[ID_SIZE], const char **ret_suffix)
{
	size_t len = strcspn(file, ".");

	if (len >= ID_SIZE)
		return false;
	(void)snprintf(name, ID_SIZE, "%.*s", (int)len, file);
	*ret_suffix = file + len;
	return id_is_kept(name);
}

unsigned kept_sweep(int dir, const char (*keep)[ID_SIZE], size_t n, bool *ret_gone)
{
	DIR *d = fd_opendir_again(dir);
	unsigned removed = 0;

	*ret_gone = false;
	if (!d)
		return 0;
	for (struct dirent *e; (e = readdir(d));) {
		char name[ID_SIZE];
		const char *suffix;

		if (!split(e->d_name, name, &suffix))
			continue;
		if (strcmp(suffix, GONE) == 0) {
			*ret_gone = true;
		} else if (strcmp(suffix, NEW) == 0) {
			removed += unlinkat(dir, e->d_name, 0) == 0;
		} else if (!listed(name, keep, n)) {
			*ret_gone = kept_remove(dir, name) || *ret_gone;
			removed++;
		}
	}
	(void)closedir(d);
	return removed;
}

void kept_empty_gone(int dir)
{
	DIR *d = fd_opendir_again(dir);

	if (!d)
		return;
	for (struct dirent *e; (e = readdir(d));) {
		_cleanup_(fd_closep) int sub = -1;
		char name[ID_SIZE];
		const char *suffix;

		if (!split(e->d_name, name, &suffix) || strcmp(suffix, GONE) != 0)
			continue;
		sub = tree_open(dir, e->d_name);
		/* Its last processes may be dying still, and write while they do. */
		for (int tries = 0; sub >= 0 && tries < 100; tries++) {
			tree_empty(sub);
			if (unlinkat(dir, e->d_name, AT_REMOVEDIR) == 0 || errno != ENOTEMPTY)
				break;
			(void)usleep(10000);
		}
	}
	(void)closedir(d);
}
