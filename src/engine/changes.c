#include "engine/changes.h"

#include "base/attr.h"
#include "base/fd.h"
#include "core/limits.h"
#include "engine/agent_impl.h"
#include "engine/agent_walk.h"
#include "engine/overlay.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

/* Files of the same size are compared up to this one; beyond it, what was written was changed. */
#define COMPARE_MAX (64ll << 20)

struct finding {
	struct walk walk;
	/* The lower directory of each one on the way; -1: there is none. */
	int lower[TREE_DEPTH_MAX + 2];
	changed_fn *fn;
	void *ctx;
	struct agent agent; /* for the walk */
	char other[AGENT_CHUNK];
};

static bool is_whiteout(const struct stat *st)
{
	return S_ISCHR(st->st_mode) && st->st_rdev == makedev(0, 0);
}

static int found(struct finding *f, int dir, const char *name, const char *path,
		 const struct stat *st, enum agent_change change, struct cay_error *err)
{
	char target[AGENT_PATH_MAX + 1] = "";
	const struct changed c = {.path = path, .change = change, .st = st, .target = target};
	ssize_t n = S_ISLNK(st->st_mode) ? readlinkat(dir, name, target, sizeof(target) - 1) : 0;

	target[n < 0 ? 0 : n] = '\0';
	return f->fn(f->ctx, &c, err);
}

static bool same_bytes(struct finding *f, int one, int two)
{
	char *chunk = f->agent.chunk;

	for (;;) {
		ssize_t n = read(one, chunk, AGENT_CHUNK), got = 0;

		if (n < 0)
			return false;
		while (got < n) {
			ssize_t more = read(two, f->other + got, (size_t)(n - got));

			if (more <= 0)
				return false;
			got += more;
		}
		if (n == 0)
			return true;
		if (memcmp(chunk, f->other, (size_t)n) != 0)
			return false;
	}
}

/* A file that was opened for writing, or given the mode it had, is in the layer all the same. */
static bool same_file(struct finding *f, int dir, int lower, const char *name,
		      const struct stat *st, const struct stat *was)
{
	_cleanup_(fd_closep) int one = -1, two = -1;
	struct stat now;

	if (st->st_size != was->st_size || st->st_size > COMPARE_MAX)
		return false;
	one = agent_open_file(&f->agent, dir, name, O_RDONLY | O_NOFOLLOW, &now);
	two = one < 0 ? -1 : agent_open_file(&f->agent, lower, name, O_RDONLY | O_NOFOLLOW, &now);
	return two >= 0 && same_bytes(f, one, two);
}

static bool same_link(int dir, int lower, const char *name)
{
	char one[AGENT_PATH_MAX], two[AGENT_PATH_MAX];
	ssize_t n = readlinkat(dir, name, one, sizeof(one));

	return n > 0 && readlinkat(lower, name, two, sizeof(two)) == n &&
	       memcmp(one, two, (size_t)n) == 0;
}

static bool same(struct finding *f, int dir, int lower, const char *name, const struct stat *st,
		 const struct stat *was)
{
	if ((st->st_mode & S_IFMT) != (was->st_mode & S_IFMT))
		return false;
	if (S_ISLNK(st->st_mode))
		return same_link(dir, lower, name);
	if ((st->st_mode & 0777) != (was->st_mode & 0777))
		return false;
	return S_ISDIR(st->st_mode) ||
	       (S_ISREG(st->st_mode) && same_file(f, dir, lower, name, st, was));
}

static bool is_opaque(int dir)
{
	char value = '\0';

	return fgetxattr(dir, OVERLAY_OPAQUE, &value, 1) == 1 && value == 'y';
}

/* An opaque directory hides all that is below it: what it does not have itself is gone. */
static int find_hidden(struct finding *f, int upper, int lower, struct cay_error *err)
{
	DIR *d = fd_opendir(walk_open(lower, ".", false));
	char path[AGENT_PATH_MAX + 1];
	int r = 0;

	for (struct dirent *e; r == 0 && d && (e = readdir(d));) {
		struct stat st;

		if (!agent_is_name(e->d_name, strlen(e->d_name)) ||
		    fstatat(upper, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 ||
		    fstatat(lower, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		if (snprintf(path, sizeof(path), "%s/%s", f->walk.path, e->d_name) >=
		    (int)sizeof(path))
			f->agent.end.skipped++;
		else
			r = found(f, lower, e->d_name, path, &st, AGENT_DELETED, err);
	}
	if (d)
		(void)closedir(d);
	return r;
}

/* On the way into it: what is beside it below. */
static int enter_dir(struct finding *f, int dir, int lower, const char *name, bool was_dir,
		     struct cay_error *err)
{
	int *below = &f->lower[f->walk.depth];
	_cleanup_(fd_closep) int upper = -1;

	fd_closep(below);
	if (!was_dir)
		return WALK_ON;
	*below = openat(lower, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	upper = walk_open(dir, name, false);
	if (*below < 0 || upper < 0 || !is_opaque(upper))
		return WALK_ON;
	return find_hidden(f, upper, *below, err);
}

static int visit(struct walk *w, int dir, const char *name, const struct stat *st,
		 struct cay_error *err)
{
	struct finding *f = (struct finding *)w; /* its first */
	int lower = f->lower[w->depth - 1], r = 0;
	struct stat was = {0};
	bool had = lower >= 0 && fstatat(lower, name, &was, AT_SYMLINK_NOFOLLOW) == 0;

	if (is_whiteout(st))
		return had ? found(f, lower, name, w->path, &was, AGENT_DELETED, err) : 0;
	if (!had)
		r = found(f, dir, name, w->path, st, AGENT_CREATED, err);
	else if (!same(f, dir, lower, name, st, &was))
		r = found(f, dir, name, w->path, st, AGENT_MODIFIED, err);
	if (r != 0 || !S_ISDIR(st->st_mode))
		return r;
	return enter_dir(f, dir, lower, name, had && S_ISDIR(was.st_mode), err);
}

static void finding_freep(struct finding **f)
{
	for (size_t n = 0; *f && n < ARRAY_LEN((*f)->lower); n++)
		fd_closep(&(*f)->lower[n]);
	free(*f);
}

int changes_find(int lower, int upper, changed_fn *fn, void *ctx, uint32_t *ret_skipped,
		 struct cay_error *err)
{
	_cleanup_(finding_freep) struct finding *f = calloc(1, sizeof(*f));
	int top, r;

	if (!f)
		return cay_fail(err, CAY_E_INTERNAL, ENOMEM, "look at the workspace's layers");
	for (size_t n = 0; n < ARRAY_LEN(f->lower); n++)
		f->lower[n] = -1;
	f->fn = fn;
	f->ctx = ctx;
	f->walk = (struct walk){
		.a = &f->agent, .visit = visit, .depth_max = TREE_DEPTH_MAX, .deeper_fails = true};
	f->lower[0] = fcntl(lower, F_DUPFD_CLOEXEC, 3);
	top = walk_open(upper, ".", false);
	if (f->lower[0] < 0 || top < 0) {
		fd_closep(&top);
		return agent_fail(err, errno, "open", "the workspace's layers");
	}
	r = walk_tree(&f->walk, top, err);
	*ret_skipped = f->agent.end.skipped;
	return r < 0 ? -1 : 0;
}
