#include "engine/agent_impl.h"

#include "base/attr.h"
#include "base/fd.h"
#include "core/limits.h"
#include "engine/agent_walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int open_top(struct agent *a, struct cay_error *err)
{
	int dir = walk_open(a->base, a->path, true);

	if (dir < 0 && errno == ENOTDIR && faccessat(a->base, a->path, F_OK, 0) == 0)
		return cay_fail(err, CAY_E_INVALID, 0, "%s is no directory", a->path);
	return dir < 0 ? agent_fail(err, errno, "read the directory", a->path) : dir;
}

static int list_one(struct walk *w, int dir, const char *name, const struct stat *st,
		    struct cay_error *err)
{
	struct agent *a = w->a;
	char target[AGENT_PATH_MAX + 1] = "";
	ssize_t n = 0;

	if (a->end.entries >= a->ask.count) {
		a->end.truncated = 1;
		return WALK_STOP;
	}
	if (S_ISLNK(st->st_mode))
		n = readlinkat(dir, name, target, sizeof(target) - 1);
	target[n < 0 ? 0 : n] = '\0';
	a->end.entries++;
	return agent_send_entry(a, st, w->path, target, 0, err);
}

int agent_do_list(struct agent *a, struct cay_error *err)
{
	struct walk w = {.a = a, .visit = list_one, .cursor = a->arg, .depth_max = a->ask.depth};
	int dir;

	if (a->ask.depth == 0 || a->ask.depth > TREE_DEPTH_MAX)
		return cay_fail(err, CAY_E_INVALID, 0, "depth must be 1 to %d", TREE_DEPTH_MAX);
	if (a->ask.count == 0 || a->ask.count > AGENT_LIST_MAX)
		return cay_fail(err, CAY_E_INVALID, 0, "limit must be 1 to %u", AGENT_LIST_MAX);
	dir = open_top(a, err);
	return dir < 0 || walk_tree(&w, dir, err) < 0 ? -1 : 0;
}

/*
 * Removal. A tree may be deeper than there are fds: what lies too deep is moved up
 * into the top that is being removed, and met there again.
 */
struct removal {
	struct agent *a;
	int top;
	bool moved;
	int failed; /* errno of the first that stays */
};

static int note(struct removal *r, int e)
{
	if (r->failed == 0 && e != ENOENT)
		r->failed = e;
	return 0;
}

static int move_up(struct removal *r, int dir, const char *name)
{
	char temp[32];

	draft_name(temp);
	if (renameat(dir, name, r->top, temp) < 0)
		return note(r, errno);
	r->moved = true;
	return 0;
}

static void empty_dir(struct removal *r, int dir, unsigned depth);

static void remove_entry(struct removal *r, int dir, const char *name, unsigned depth)
{
	_cleanup_(fd_closep) int fd = -1;

	if (unlinkat(dir, name, 0) == 0) {
		r->a->end.entries++;
		return;
	}
	if (errno != EISDIR && errno != EPERM) {
		(void)note(r, errno);
		return;
	}
	if (depth >= TREE_DEPTH_MAX) {
		(void)move_up(r, dir, name);
		return;
	}
	fd = walk_open(dir, name, false);
	if (fd >= 0)
		empty_dir(r, take_fd(&fd), depth + 1);
	/* One that can't be opened may be empty all the same. */
	if (unlinkat(dir, name, AT_REMOVEDIR) == 0)
		r->a->end.entries++;
	else if (!r->moved || errno != ENOTEMPTY)
		(void)note(r, errno);
}

/* Takes the fd over. */
static void empty_dir(struct removal *r, int dir, unsigned depth)
{
	DIR *d = fd_opendir(dir);

	if (!d) {
		(void)note(r, errno);
		return;
	}
	for (struct dirent *e; (e = readdir(d));)
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			remove_entry(r, dirfd(d), e->d_name, depth);
	(void)closedir(d);
}

static int remove_tree(struct agent *a, int dir, const char *name, struct cay_error *err)
{
	struct removal r = {.a = a};
	_cleanup_(fd_closep) int top = walk_open(dir, name, false);

	r.top = top;
	do {
		int again = top < 0 ? -1 : walk_open(top, ".", false);

		r.moved = false;
		if (again >= 0)
			empty_dir(&r, again, 1);
	} while (r.moved && r.failed == 0);
	if (unlinkat(dir, name, AT_REMOVEDIR) < 0)
		return agent_fail(err, r.failed ? r.failed : errno, "remove", a->path);
	a->end.entries++;
	return 0;
}

static bool is_base(struct agent *a, int dir, const char *name)
{
	struct stat base, st;

	return fstat(a->base, &base) == 0 && fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       base.st_dev == st.st_dev && base.st_ino == st.st_ino;
}

int agent_do_remove(struct agent *a, struct cay_error *err)
{
	_cleanup_(fd_closep) int dir = -1;
	const char *name;
	struct stat st;

	if (agent_open_parent(a, a->path, false, &dir, &name, err) < 0)
		return -1;
	if (is_base(a, dir, name))
		return cay_fail(err, CAY_E_INVALID, 0, "the workspace itself can't be removed");
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return agent_fail(err, errno, "remove", a->path);
	if (S_ISDIR(st.st_mode) && a->ask.flags & AGENT_RECURSIVE)
		return remove_tree(a, dir, name, err);
	if (unlinkat(dir, name, S_ISDIR(st.st_mode) ? AT_REMOVEDIR : 0) < 0) {
		(void)agent_fail(err, errno, "remove", a->path);
		return err->sys_errno == ENOTEMPTY ? cay_hint(err, "ask for recursive") : -1;
	}
	a->end.entries++;
	return 0;
}
