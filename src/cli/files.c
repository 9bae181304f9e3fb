#include "cli/files.h"

#include "base/attr.h"
#include "base/fd.h"
#include "base/glob.h"
#include "core/limits.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

/* A path that is walked has fewer parts, and a glob one "**" at most between two of them. */
_Static_assert(GLOB_PARTS_MAX >= 2 * TREE_DEPTH_MAX + 8, "a glob may be as deep as a tree");

/*
 * An island path, as the directory it is below and the rest. A trusted host
 * program walks a tree that hostile code made: each step is one openat() of
 * one name that must not be a symlink.
 */
static int split(const struct island_files *f, const char *path, int *ret_dir,
		 const char **ret_rest, struct cay_error *err)
{
	*ret_dir = f->workspace;
	*ret_rest = path;
	if (path_is_within(path, ISLAND_WORKSPACE)) {
		*ret_rest = path + strlen(ISLAND_WORKSPACE);
	} else if (path_is_within(path, "/tmp") && f->tmp >= 0) {
		*ret_dir = f->tmp;
		*ret_rest = path + strlen("/tmp");
	} else if (path[0] == '/') {
		(void)cay_fail(err, CAY_E_INVALID, 0, "%s is not below /workspace or /tmp", path);
		return cay_hint(err, "nothing else on an island is writable");
	}
	*ret_rest += strspn(*ret_rest, "/");
	return 0;
}

int files_check_path(const char *path, struct cay_error *err)
{
	const struct island_files any = {0};
	const char *rest;
	int dir;

	return split(&any, path, &dir, &rest, err);
}

static int split_writable(const struct island_files *f, const char *path, int *ret_dir,
			  const char **ret_rest, struct cay_error *err)
{
	if (split(f, path, ret_dir, ret_rest, err) < 0)
		return -1;
	if (*ret_dir != f->workspace || !f->read_only)
		return 0;
	(void)cay_fail(err, CAY_E_INVALID, 0, "%s can't be put there: the workspace is read-only",
		       path);
	return cay_hint(err, "put it below /tmp, or ask for --workspace SRC:rw");
}

static bool name_ok(const char *name, size_t len)
{
	return len > 0 && len <= NAME_MAX && !(len == 1 && name[0] == '.') &&
	       !(len == 2 && name[0] == '.' && name[1] == '.');
}

/*
 * Root touches an island's files as the owner of the workspace, or of /tmp: what
 * it makes is the island's own from the start (on a file system in whose user
 * namespace root has no id), and neither reading nor writing goes further than
 * that owner may.
 */
struct owner {
	bool act;
	uid_t uid;
	gid_t gid;
};

static int find_owner(const struct island_files *f, int top, struct owner *ret)
{
	struct stat st;

	*ret = (struct owner){0};
	if (!f->as_owner)
		return 0;
	if (fstat(top, &st) < 0)
		return -errno;
	*ret = (struct owner){.act = true, .uid = st.st_uid, .gid = st.st_gid};
	return 0;
}

/* These calls say who one was, never that they failed: so they are asked again. */
static bool set_fs_ids(uid_t uid, gid_t gid)
{
	(void)setfsgid(gid);
	(void)setfsuid(uid);
	return setfsgid((gid_t)-1) == (int)gid && setfsuid((uid_t)-1) == (int)uid;
}

/* 0, or -1 and errno; become_self() is due in any case. */
static int become_owner(const struct owner *o)
{
	if (!o->act || set_fs_ids(o->uid, o->gid))
		return 0;
	errno = EPERM;
	return -1;
}

static void become_self(const struct owner *o)
{
	int saved = errno;

	if (o->act && !set_fs_ids(geteuid(), getegid()))
		abort(); /* somebody else for good: nothing is safe to do */
	errno = saved;
}

/* Opens the directory of that name, made where it was missing; -errno. */
static int open_dir(const struct owner *o, int at, const char *name)
{
	int fd;

	fd = become_owner(o);
	if (fd == 0 && mkdirat(at, name, 0755) < 0 && errno != EEXIST)
		fd = -1;
	become_self(o);
	if (fd == 0)
		fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* Opens (and makes) the directories of path but the last name; returns an fd, gives the name. */
static int open_parent(const struct owner *o, int dir, const char *path, const char **ret_name)
{
	int at = fcntl(dir, F_DUPFD_CLOEXEC, 3);

	while (at >= 0) {
		size_t len = strcspn(path, "/");
		char name[NAME_MAX + 1];
		int next;

		if (!name_ok(path, len)) {
			(void)close(at);
			return -EINVAL;
		}
		if (path[len] == '\0') {
			*ret_name = path;
			return at;
		}
		(void)snprintf(name, sizeof(name), "%.*s", (int)len, path);
		next = open_dir(o, at, name);
		(void)close(at);
		if (next < 0)
			return next;
		at = next;
		path += len + strspn(path + len, "/");
	}
	return -errno;
}

/* A new regular file: what is there already is replaced, never written through. */
static int create(const struct owner *o, int dir, const char *name, mode_t mode)
{
	const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
	int fd;

	fd = become_owner(o) < 0 ? -1 : openat(dir, name, flags, 0600);
	if (fd < 0 && errno == EEXIST && unlinkat(dir, name, 0) == 0)
		fd = openat(dir, name, flags, 0600);
	if (fd >= 0 && fchmod(fd, mode & 0777) < 0)
		fd_closep(&fd);
	become_self(o);
	return fd < 0 ? -errno : fd;
}

int files_write(const struct island_files *f, const char *path, const void *data, size_t len,
		unsigned mode, struct cay_error *err)
{
	_cleanup_(fd_closep) int dir = -1, fd = -1;
	const char *rest, *name;
	struct owner owner;
	int top, r;

	if (split_writable(f, path, &top, &rest, err) < 0)
		return -1;
	dir = find_owner(f, top, &owner);
	if (dir == 0)
		dir = open_parent(&owner, top, rest, &name);
	fd = dir < 0 ? dir : create(&owner, dir, name, mode);
	r = fd < 0 ? fd : fd_write_all(fd, data, len);
	return r < 0 ? cay_fail(err, r == -ENOSPC ? CAY_E_TOO_LARGE : CAY_E_INVALID, -r,
				"put %s on the island", path)
		     : 0;
}

static int copy_bytes(int from, int to)
{
	for (;;) {
		ssize_t n = sendfile(to, from, NULL, 1u << 20);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : 0;
	}
}

static int put_entry(const struct owner *o, int from, int dir, const char *name, int depth);

static int put_dir(const struct owner *o, int from, int dir, const char *name, int depth)
{
	_cleanup_(fd_closep) int to = -1;
	int r = 0;
	DIR *d;

	if (depth >= TREE_DEPTH_MAX)
		return -ELOOP;
	to = open_dir(o, dir, name);
	if (to < 0)
		return to;
	d = fd_opendir_again(from);
	if (!d)
		return -errno;
	for (struct dirent *e; r == 0 && (e = readdir(d));) {
		_cleanup_(fd_closep) int sub = -1;

		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		/* Never waits on a FIFO; links inside a tree are not followed. */
		sub = openat(from, e->d_name,
			     O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
		if (sub < 0 && (errno == ELOOP || errno == ENXIO))
			continue;
		r = sub < 0 ? -errno : put_entry(o, sub, to, e->d_name, depth + 1);
	}
	(void)closedir(d);
	return r;
}

static int put_entry(const struct owner *o, int from, int dir, const char *name, int depth)
{
	_cleanup_(fd_closep) int to = -1;
	struct stat st;

	if (fstat(from, &st) < 0)
		return -errno;
	if (S_ISDIR(st.st_mode))
		return put_dir(o, from, dir, name, depth);
	if (!S_ISREG(st.st_mode))
		return depth == 0 ? -EINVAL : 0;
	/* Readable for the island's user, executable if it was. */
	to = create(o, dir, name, 0644 | (st.st_mode & 0111));
	return to < 0 ? to : copy_bytes(from, to);
}

int files_put(const struct island_files *f, int from_fd, const char *from, const char *to,
	      struct cay_error *err)
{
	_cleanup_(fd_closep) int dir = -1;
	char path[PATH_MAX];
	const char *rest, *name = strrchr(from, '/');
	struct owner owner;
	int top, r;

	name = name ? name + 1 : from;
	if (!to && name_ok(name, strlen(name))) {
		to = name;
	} else if (!to) {
		/* "dir/", "." and the like have a name only when resolved. */
		r = fd_real_path(from_fd, path, sizeof(path));
		if (r < 0)
			return cay_fail(err, CAY_E_INTERNAL, -r, "--put %s", from);
		to = strrchr(path, '/') + 1;
	}
	if (split_writable(f, to, &top, &rest, err) < 0)
		return -1;
	dir = find_owner(f, top, &owner);
	if (dir == 0)
		dir = open_parent(&owner, top, rest, &name);
	r = dir < 0 ? dir : put_entry(&owner, from_fd, dir, name, 0);
	if (r == -ENOSPC) {
		(void)cay_fail(err, CAY_E_TOO_LARGE, -r, "--put %s", from);
		return cay_hint(err, "the limit is --disk");
	}
	return r < 0 ? cay_fail(err, CAY_E_INVALID, -r, "--put %s to %s", from, to) : 0;
}

/* Only what is really there: a sparse file stays one, or it would fill the caller's disk. */
static int copy_data(int from, int to, off_t size)
{
	off_t at = 0;

	while (at < size) {
		off_t data = lseek(from, at, SEEK_DATA), hole;

		if (data < 0 && errno == ENXIO)
			break;
		hole = data < 0 ? -1 : lseek(from, data, SEEK_HOLE);
		if (hole < 0 || lseek(to, data, SEEK_SET) < 0)
			return -errno;
		for (at = data; at < hole;) {
			ssize_t n = sendfile(to, from, &at, (size_t)(hole - at));

			if (n < 0 && errno == EINTR)
				continue;
			if (n <= 0)
				return n < 0 ? -errno : -EIO;
		}
	}
	return ftruncate(to, size) < 0 ? -errno : 0;
}

/* Whether a file may take its place: root's --get to /dev/null must not make a file of that. */
static int check_replaceable(int dir, const char *name)
{
	struct stat st;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -errno;
	return S_ISREG(st.st_mode) || S_ISLNK(st.st_mode) ? 0 : -EEXIST;
}

int files_save(int dir_fd, const char *path, int from_fd, size_t size, struct cay_error *err)
{
	const struct owner self = {0};
	_cleanup_(fd_closep) int dir = -1, to = -1;
	const char *name;
	int r;

	dir = open_parent(&self, dir_fd, path, &name);
	to = dir < 0 ? dir : check_replaceable(dir, name);
	if (to == 0)
		to = create(&self, dir, name, 0644);
	r = to < 0 ? to : copy_data(from_fd, to, (off_t)size);
	if (to >= 0 && r < 0)
		(void)unlinkat(dir, name, 0); /* half a file looks like a whole one */
	return r < 0 ? cay_fail(err, CAY_E_INVALID, -r, "bring %s out", path) : 0;
}

struct walk {
	struct owner owner;
	const char *glob;   /* NULL: everything */
	const char *prefix; /* "" or "/tmp/": in front of the paths given out */
	uint64_t since_ns;  /* only what was changed after this; 0: all */
	files_get_fn *fn;
	void *ctx;
	size_t n;
	uint64_t bytes;
};

static int list_names(int dir, struct strv *ret)
{
	DIR *d = fd_opendir_again(dir);
	int r = 0;

	if (!d)
		return -errno;
	for (struct dirent *e; r == 0 && (e = readdir(d));)
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			r = strv_add(ret, e->d_name);
	(void)closedir(d);
	strv_sort(ret);
	return r;
}

static int give_out(struct walk *w, const char *path, int fd, const struct stat *st,
		    struct cay_error *err)
{
	char full[PATH_MAX + 8];
	uint64_t size = (uint64_t)st->st_size;

	if (w->n >= FILES_OUT_MAX || w->bytes + size > FILES_OUT_BYTES)
		return cay_fail(err, CAY_E_TOO_LARGE, 0,
				"--get %s: more than %u files or %llu bytes",
				w->glob ? w->glob : "*", FILES_OUT_MAX,
				(unsigned long long)FILES_OUT_BYTES);
	w->n++;
	w->bytes += size;
	(void)snprintf(full, sizeof(full), "%s%s", w->prefix, path);
	return w->fn(w->ctx, full, fd, (size_t)size, err);
}

static bool is_wanted(const struct walk *w, const char *path, const struct stat *st)
{
	uint64_t changed =
		(uint64_t)st->st_ctim.tv_sec * 1000000000 + (uint64_t)st->st_ctim.tv_nsec;

	return (!w->since_ns || changed > w->since_ns) && glob_matches(w->glob, path);
}

static int walk_dir(struct walk *w, int dir, const char *path, int depth, struct cay_error *err)
{
	_cleanup_(strv_done) struct strv names = {0};
	int r = list_names(dir, &names);

	if (r == -EACCES || r == -EPERM)
		return 0; /* a directory the program made unreadable hides only its own */
	if (r < 0 || depth > TREE_DEPTH_MAX)
		return cay_fail(err, CAY_E_TOO_LARGE, 0,
				"/%s holds more than %d files, or lies deeper than %d directories",
				path, STRV_MAX, TREE_DEPTH_MAX);
	for (size_t i = 0; i < names.len; i++) {
		char sub[PATH_MAX];
		struct stat st;
		_cleanup_(fd_closep) int fd = -1;
		int n = snprintf(sub, sizeof(sub), "%s%s%s", path, *path ? "/" : "",
				 names.items[i]);

		/* O_NONBLOCK: a FIFO must not hold us. */
		if (become_owner(&w->owner) == 0)
			fd = openat(dir, names.items[i],
				    O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
		become_self(&w->owner);
		if (fd < 0 && (errno == ENOMEM || errno == EMFILE || errno == ENFILE))
			return cay_fail(err, CAY_E_INTERNAL, errno, "open /%s", sub);
		if (fd < 0 || n < 0 || (size_t)n >= sizeof(sub) || fstat(fd, &st) < 0)
			continue;
		r = 0;
		if (S_ISDIR(st.st_mode) && glob_may_match_below(w->glob, sub))
			r = walk_dir(w, fd, sub, depth + 1, err);
		else if (S_ISREG(st.st_mode) && is_wanted(w, sub, &st))
			r = give_out(w, sub, fd, &st, err);
		if (r < 0)
			return -1;
	}
	return 0;
}

bool files_glob_is_new(const char *glob)
{
	return strcmp(glob, "*") == 0;
}

int files_get(const struct island_files *f, const char *glob, uint64_t since_ns, files_get_fn *fn,
	      void *ctx, size_t *ret_n, struct cay_error *err)
{
	struct walk w = {.prefix = "", .fn = fn, .ctx = ctx};
	int top;

	if (split(f, glob, &top, &w.glob, err) < 0)
		return -1;
	if (find_owner(f, top, &w.owner) < 0)
		return cay_fail(err, CAY_E_INTERNAL, errno, "look at the workspace");
	if (top == f->tmp && f->tmp >= 0)
		w.prefix = "/tmp/";
	while (strncmp(w.glob, "./", 2) == 0)
		w.glob += 2 + strspn(w.glob + 2, "/");
	/* "." and "/workspace" mean everything. */
	if (since_ns && files_glob_is_new(glob))
		w.since_ns = since_ns;
	if (*w.glob == '\0' || strcmp(w.glob, ".") == 0 || w.since_ns)
		w.glob = NULL;
	if (walk_dir(&w, top, "", 0, err) < 0)
		return -1;
	*ret_n = w.n;
	return 0;
}
