#include "cli/apply.h"

#include "base/attr.h"
#include "base/fd.h"
#include "cli/cli.h"
#include "core/limits.h"
#include "cli/sparse.h"
#include "engine/sys.h"
#include "engine/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define RESOLVE_BELOW (RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS)

#ifndef RENAME_NOREPLACE /* musl's before 1.2.4 */
#define RENAME_NOREPLACE 1
#endif

/* One change, where it goes. */
struct landing {
	struct apply *a;
	const struct change *c;
	int dir;
	const char *name;
	bool there;
	struct stat st; /* of what is there */
	char draft[48];
};

/* Nothing is done with what was told. Returns 0: the others go on. */
static void leave(struct apply *a, const struct change *c, const char *why)
{
	a->left++;
	cli_say("%s: %s", c->path, why);
}

static void leave_error(struct apply *a, const struct change *c, int e)
{
	struct cay_error err;

	(void)cay_fail(&err, CAY_E_INVALID, e, "not brought back");
	leave(a, c, err.text);
}

int apply_open(const char *path, const struct settings *settings, int *ret_fd,
	       struct cay_error *err)
{
	_cleanup_(mount_rules_done) struct mount_rules rules = {0};
	_cleanup_(fd_closep) int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char real[PATH_MAX];
	int r;

	if (fd < 0)
		return cay_fail(err, CAY_E_NOT_FOUND, errno, "bring changes back to %s", path);
	r = fd_real_path(fd, real, sizeof(real));
	if (r < 0)
		return cay_fail(err, CAY_E_INTERNAL, -r, "look at %s", path);
	if (cli_mount_rules(settings, &rules, err) < 0)
		return -1;
	if (mount_check(&rules, real, ACCESS_WRITE, err) < 0)
		return cay_wrap(err, "bring changes back");
	if (faccessat(fd, ".", W_OK, AT_EACCESS) < 0)
		return cay_fail(err, CAY_E_POLICY, errno, "bring changes back to %s", path);
	*ret_fd = take_fd(&fd);
	return 0;
}

static bool is_newer(const struct apply *a, const struct stat *st)
{
	return (int64_t)st->st_ctim.tv_sec * 1000 + st->st_ctim.tv_nsec / 1000000 > a->since_ms;
}

/* Whether anything in the directory is newer, or can't be looked at. */
static bool holds_newer(const struct apply *a, int dir, const char *name, int depth)
{
	_cleanup_(fd_closep) int fd =
		openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *d = fd < 0 || depth > TREE_DEPTH_MAX ? NULL : fd_opendir_again(fd);
	bool newer = !d;

	for (struct dirent *e; !newer && d && (e = readdir(d));) {
		struct stat st;

		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		newer = fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 || is_newer(a, &st) ||
			(S_ISDIR(st.st_mode) && holds_newer(a, fd, e->d_name, depth + 1));
	}
	if (d)
		(void)closedir(d);
	return newer;
}

/* Whether a file system is mounted there, or below it: what is in there is none of the directory's.
 */
static bool holds_mount(int dir, const char *name, int depth)
{
	_cleanup_(fd_closep) int fd =
		sys_openat2(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
			    RESOLVE_BELOW | RESOLVE_NO_XDEV);
	bool mounted = fd < 0 && errno == EXDEV;
	DIR *d = fd < 0 || depth > TREE_DEPTH_MAX ? NULL : fd_opendir_again(fd);

	for (struct dirent *e; !mounted && d && (e = readdir(d));)
		mounted = strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 &&
			  holds_mount(fd, e->d_name, depth + 1);
	if (d)
		(void)closedir(d);
	return mounted;
}

/* Why what is there must stay; NULL: it may go. */
static const char *find_conflict(const struct landing *l)
{
	if (l->there && S_ISDIR(l->st.st_mode) && holds_mount(l->dir, l->name, 0))
		return "a file system is mounted there by now";
	if (l->a->force)
		return NULL;
	if (!l->there)
		return l->c->change == AGENT_MODIFIED
			       ? "it is gone since the sandbox began; --force makes it anew"
			       : NULL;
	if (l->c->change == AGENT_CREATED)
		return "there is one by now; --force replaces it";
	if (is_newer(l->a, &l->st) ||
	    (S_ISDIR(l->st.st_mode) && holds_newer(l->a, l->dir, l->name, 0)))
		return "it was changed here since the sandbox began; --force replaces it";
	return NULL;
}

/* What is there, whatever it is. 0 or -errno. */
static int remove_old(const struct landing *l)
{
	_cleanup_(fd_closep) int dir = -1;

	if (!S_ISDIR(l->st.st_mode))
		return unlinkat(l->dir, l->name, 0) < 0 && errno != ENOENT ? -errno : 0;
	dir = openat(l->dir, l->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0)
		return -errno;
	tree_empty(dir);
	return unlinkat(l->dir, l->name, AT_REMOVEDIR) < 0 ? -errno : 0;
}

/* From the draft to the name. What nobody expected there is not replaced. 0 or -errno. */
static int settle(const struct landing *l)
{
	bool replace = l->there || l->a->force;
	int r = l->there && S_ISDIR(l->st.st_mode) ? remove_old(l) : 0;

	if (r == 0 && syscall(SYS_renameat2, l->dir, l->draft, l->dir, l->name,
			      replace ? 0 : RENAME_NOREPLACE) < 0)
		r = -errno;
	/* Not of all file systems. */
	if (r == -EINVAL && renameat(l->dir, l->draft, l->dir, l->name) == 0)
		r = 0;
	return r;
}

/* Root's belong to who has what was there, or the directory around it. */
static int give_owner(const struct landing *l, int fd)
{
	struct stat st = l->st;

	if (geteuid() != 0)
		return 0;
	if (!l->there && fstat(l->dir, &st) < 0)
		return -errno;
	return fchown(fd, st.st_uid, st.st_gid) < 0 ? -errno : 0;
}

static bool same_bytes(int one, int two)
{
	char a[65536], b[65536];
	off_t at = 0;

	for (;;) {
		ssize_t n = pread(one, a, sizeof(a), at), m = pread(two, b, sizeof(b), at);

		if (n < 0 || n != m || memcmp(a, b, (size_t)n) != 0)
			return false;
		if (n == 0)
			return true;
		at += n;
	}
}

/* Brought back before, or changed here in the same way. */
static bool is_same_file(const struct landing *l, int fd)
{
	_cleanup_(fd_closep) int old = -1;

	if (!l->there || !S_ISREG(l->st.st_mode) || (l->st.st_mode & 0777) != l->c->mode)
		return false;
	old = openat(l->dir, l->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	return old >= 0 && same_bytes(old, fd);
}

static int fill_file(struct landing *l, int fd, struct cay_error *err)
{
	int r;

	if (l->a->fetch(l->a->ctx, l->c->path, fd, err) < 0)
		return -1;
	r = give_owner(l, fd);
	/* After the owner, which would take bits away. */
	if (r == 0 && fchmod(fd, l->c->mode & 0777) < 0)
		r = -errno;
	return r < 0 ? cay_fail(err, CAY_E_INVALID, -r, "not brought back") : 0;
}

static void land_file(struct landing *l)
{
	const int flags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
	const char *conflict = find_conflict(l);
	_cleanup_(fd_closep) int fd = openat(l->dir, l->draft, flags, 0600);
	struct cay_error err;
	int r = 0;

	if (fd < 0) {
		leave_error(l->a, l->c, errno);
		return;
	}
	if (fill_file(l, fd, &err) < 0)
		leave(l->a, l->c, err.text);
	else if (is_same_file(l, fd))
		l->a->same++;
	else if (conflict)
		leave(l->a, l->c, conflict);
	else if ((r = settle(l)) < 0)
		leave_error(l->a, l->c, -r);
	else
		l->a->applied++;
	(void)unlinkat(l->dir, l->draft, 0); /* gone, where it has its name */
}

/*
 * Whether a link stays below the directory: as many steps up as it lies deep, at its start
 * alone, where they lead through nothing that may be a link itself.
 */
static bool link_stays(const char *path, const char *target)
{
	size_t depth = 0;

	for (; (path = strchr(path, '/')); path++)
		depth++;
	if (target[0] == '/' || target[0] == '\0')
		return false;
	while (strncmp(target, "../", 3) == 0 || strcmp(target, "..") == 0) {
		if (depth-- == 0)
			return false;
		target += 2;
		target += strspn(target, "/");
	}
	for (; *target; target += strspn(target, "/")) {
		size_t len = strcspn(target, "/");

		if (len == 2 && memcmp(target, "..", 2) == 0)
			return false;
		target += len;
	}
	return true;
}

static bool is_same_link(const struct landing *l)
{
	char target[PATH_MAX];
	ssize_t n = l->there && S_ISLNK(l->st.st_mode)
			    ? readlinkat(l->dir, l->name, target, sizeof(target))
			    : -1;

	return n >= 0 && (size_t)n == strlen(l->c->target) &&
	       memcmp(target, l->c->target, (size_t)n) == 0;
}

static void land_link(struct landing *l)
{
	const char *conflict = find_conflict(l);
	int r = 0;

	if (!link_stays(l->c->path, l->c->target)) {
		leave(l->a, l->c, "a link that leads out of the directory is not brought back");
	} else if (is_same_link(l)) {
		l->a->same++;
	} else if (conflict) {
		leave(l->a, l->c, conflict);
	} else if (symlinkat(l->c->target, l->dir, l->draft) < 0 || (r = settle(l)) < 0) {
		leave_error(l->a, l->c, r < 0 ? -r : errno);
		(void)unlinkat(l->dir, l->draft, 0);
	} else {
		l->a->applied++;
	}
}

/* Made, or its mode as it is to be. 0 or -errno. */
static int make_dir(struct landing *l)
{
	_cleanup_(fd_closep) int fd = -1;
	bool made = !l->there;

	if (made && mkdirat(l->dir, l->name, 0700) < 0)
		return -errno;
	fd = openat(l->dir, l->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (made && give_owner(l, fd) < 0)
		return -errno;
	/* Ours to fill, whatever the sandbox made of it. */
	return fchmod(fd, (l->c->mode & 0777) | 0700) < 0 ? -errno : 0;
}

static void land_dir(struct landing *l)
{
	bool is_dir = l->there && S_ISDIR(l->st.st_mode);
	const char *conflict = is_dir ? NULL : find_conflict(l);
	int r = 0;

	if (is_dir && (l->c->change == AGENT_CREATED ||
		       (l->st.st_mode & 0777) == ((l->c->mode & 0777) | 0700))) {
		l->a->same++;
		return;
	}
	if (conflict) {
		leave(l->a, l->c, conflict);
		return;
	}
	if (l->there && !is_dir) {
		r = remove_old(l);
		l->there = false;
	}
	if (r == 0)
		r = make_dir(l);
	if (r < 0)
		leave_error(l->a, l->c, -r);
	else
		l->a->applied++;
}

static void land_deletion(struct landing *l)
{
	const char *conflict = find_conflict(l);
	int r;

	if (!l->there) {
		l->a->same++;
		return;
	}
	if (conflict) {
		leave(l->a, l->c, conflict);
		return;
	}
	r = remove_old(l);
	if (r < 0)
		leave_error(l->a, l->c, -r);
	else
		l->a->applied++;
}

static void land(struct landing *l)
{
	if (l->c->change == AGENT_DELETED)
		land_deletion(l);
	else if (l->c->type == AGENT_DIR)
		land_dir(l);
	else if (l->c->type == AGENT_LINK)
		land_link(l);
	else
		land_file(l);
}

static void apply_one(struct apply *a, const struct change *c)
{
	const char *slash = strrchr(c->path, '/');
	struct landing l = {.a = a, .c = c, .name = slash ? slash + 1 : c->path};
	_cleanup_(fd_closep) int dir = -1;
	char parent[PATH_MAX] = ".";

	if (slash)
		(void)snprintf(parent, sizeof(parent), "%.*s", (int)(slash - c->path), c->path);
	l.dir = dir = sys_openat2(a->top, parent, O_PATH | O_DIRECTORY | O_CLOEXEC, RESOLVE_BELOW);
	if (dir < 0 && errno == ENOENT && c->change == AGENT_DELETED) {
		a->same++;
		return;
	}
	if (dir < 0 && (errno == ELOOP || errno == EXDEV || errno == ENOTDIR)) {
		leave(a, c, "what it lies in is no directory here");
		return;
	}
	if (dir < 0) {
		leave_error(a, c, errno);
		return;
	}
	l.there = fstatat(dir, l.name, &l.st, AT_SYMLINK_NOFOLLOW) == 0;
	if (l.there && !S_ISREG(l.st.st_mode) && !S_ISDIR(l.st.st_mode) && !S_ISLNK(l.st.st_mode)) {
		leave(a, c, "what is there is neither a file nor a directory: it stays");
		return;
	}
	(void)snprintf(l.draft, sizeof(l.draft), ".cay-apply-%d-%zu", (int)getpid(),
		       a->applied + a->same + a->left);
	land(&l);
}

void apply_changes(struct apply *a, const struct changes *c)
{
	for (size_t i = 0; i < c->len && !(a->stop && a->stop(a->ctx)); i++)
		if (c->items[i].chosen)
			apply_one(a, &c->items[i]);
}

int apply_copy(int top, const char *path, int to_fd, struct cay_error *err)
{
	_cleanup_(fd_closep) int fd =
		sys_openat2(top, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC,
			    RESOLVE_BELOW);
	char chunk[65536];
	uint64_t at = 0;
	struct stat st;
	ssize_t n = 0;
	int r = 0;

	if (fd < 0 || fstat(fd, &st) < 0)
		return cay_fail(err, CAY_E_INVALID, errno, "not brought back");
	if (!S_ISREG(st.st_mode))
		return cay_fail(err, CAY_E_INVALID, 0, "not brought back: it is no file");
	while (r == 0 && (n = read(fd, chunk, sizeof(chunk))) > 0)
		r = sparse_write(to_fd, &at, chunk, (size_t)n);
	if (r == 0)
		r = n < 0 ? -errno : sparse_end(to_fd, at);
	return r < 0 ? cay_fail(err, CAY_E_INVALID, -r, "not brought back") : 0;
}

int apply_conclude(const struct apply *a, struct cay_error *err)
{
	size_t all = a->applied + a->same + a->left;

	if (a->left > 0)
		return cay_fail(err, CAY_E_CONFLICT, 0, "%zu of %zu changes were not brought back",
				a->left, all);
	if (all == 0)
		cli_note("nothing was changed");
	else
		cli_note("%zu change%s brought back%s", a->applied, a->applied == 1 ? "" : "s",
			 a->same > 0 ? "; the rest was there already" : "");
	return 0;
}
