/*
 * Tells what happens below a directory, until the client closes.
 *
 * Each directory has a watch and a path. What happens within a moment is told
 * together: once of what is written many times, and a move as one thing. What can't
 * be kept up with is told as AGENT_LOST: the client looks anew.
 */
#include "engine/agent_impl.h"

#include "base/attr.h"
#include "base/fd.h"
#include "core/limits.h"
#include "engine/agent_walk.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#define WATCHES_MAX 1024
#define PENDING_MAX 512
#define MOMENT_MS   20

#define EVENTS                                                                          \
	(IN_CREATE | IN_MODIFY | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_ONLYDIR | \
	 IN_DONT_FOLLOW | IN_EXCL_UNLINK | IN_MASK_ADD)

struct watched {
	int wd;
	char *path; /* below the top, which is "" */
};

struct pending {
	enum agent_change change;
	bool is_dir;
	uint32_t cookie; /* of half a move: its other half may come */
	char *path, *to;
};

struct watching {
	struct agent *a;
	int inotify;
	struct watched dirs[WATCHES_MAX];
	size_t n_dirs;
	struct pending news[PENDING_MAX];
	size_t n_news;
	bool lost, over;
};

static void watching_freep(struct watching **w)
{
	if (!*w)
		return;
	for (size_t i = 0; i < (*w)->n_dirs; i++)
		free((*w)->dirs[i].path);
	for (size_t i = 0; i < (*w)->n_news; i++) {
		free((*w)->news[i].path);
		free((*w)->news[i].to);
	}
	fd_closep(&(*w)->inotify);
	free(*w);
}

/* NULL where it is too long, or memory is out: then something is lost. */
static char *join(struct watching *w, const char *dir, const char *name)
{
	size_t at = strlen(dir), len = strlen(name);
	char *path = NULL;

	if (at + 1 + len > AGENT_PATH_MAX ||
	    asprintf(&path, "%s%s%s", dir, at > 0 && len > 0 ? "/" : "", name) < 0) {
		w->lost = true;
		return NULL;
	}
	return path;
}

static struct watched *find(struct watching *w, int wd)
{
	for (size_t i = 0; i < w->n_dirs; i++)
		if (w->dirs[i].wd == wd)
			return &w->dirs[i];
	return NULL;
}

static void forget(struct watching *w, struct watched *d)
{
	free(d->path);
	*d = w->dirs[--w->n_dirs];
}

/* By way of the current directory: there is no other call that takes an fd. */
static int watch_fd(struct watching *w, int dir, const char *path)
{
	int wd = w->n_dirs < WATCHES_MAX && fchdir(dir) == 0
			 ? inotify_add_watch(w->inotify, ".", EVENTS)
			 : -1;
	struct watched *old = wd < 0 ? NULL : find(w, wd);
	char *copy = wd < 0 ? NULL : join(w, path, "");

	/* From inside we would never hear that it is gone. */
	(void)!chdir("/");
	if (!copy)
		return -1;
	if (old)
		free(old->path);
	else
		old = &w->dirs[w->n_dirs++];
	*old = (struct watched){.wd = wd, .path = copy};
	return 0;
}

static void add_news(struct watching *w, enum agent_change change, bool is_dir, const char *path,
		     uint32_t cookie)
{
	struct pending *p;

	/* The last that was heard of it: new, or written already. */
	for (size_t i = w->n_news; i-- > 0;) {
		p = &w->news[i];
		if (strcmp(p->path, path) != 0)
			continue;
		if (p->change == change || (p->change == AGENT_CREATED && change == AGENT_MODIFIED))
			return;
		break;
	}
	if (w->n_news == PENDING_MAX) {
		w->lost = true;
		return;
	}
	p = &w->news[w->n_news];
	*p = (struct pending){.change = change, .is_dir = is_dir, .cookie = cookie};
	p->path = join(w, path, "");
	w->n_news += p->path != NULL;
}

/* New directories: what is in them already was made before we could see it. */
struct entering {
	struct walk walk;
	struct watching *w;
	const char *path; /* below the top */
	bool tell;
};

static int enter_one(struct walk *walk, int dir, const char *name, const struct stat *st,
		     struct cay_error *err _unused_)
{
	struct entering *e = (struct entering *)walk;
	char *path = join(e->w, e->path, walk->path);
	_cleanup_(fd_closep) int fd = -1;

	if (path && e->tell)
		add_news(e->w, AGENT_CREATED, S_ISDIR(st->st_mode), path, 0);
	if (path && S_ISDIR(st->st_mode)) {
		fd = walk_open(dir, name, false);
		if (fd >= 0 && watch_fd(e->w, fd, path) < 0)
			e->w->lost = true;
	}
	free(path);
	return WALK_ON;
}

static int enter(struct watching *w, int dir, const char *path, bool tell, struct cay_error *err)
{
	struct entering e = {.walk = {.a = w->a, .visit = enter_one, .depth_max = TREE_DEPTH_MAX},
			     .w = w,
			     .path = path,
			     .tell = tell};
	int r = watch_fd(w, dir, path);

	if (r < 0)
		w->lost = true;
	if (r < 0 || !(w->a->ask.flags & AGENT_RECURSIVE)) {
		(void)close(dir);
		return r;
	}
	return walk_tree(&e.walk, dir, err);
}

static void enter_new(struct watching *w, const char *path)
{
	struct cay_error err;
	int top = w->a->ask.flags & AGENT_RECURSIVE ? walk_open(w->a->base, w->a->path, true) : -1;
	int dir = top < 0 ? -1 : walk_open(top, path, false);

	if (dir >= 0)
		(void)enter(w, dir, path, true, &err);
	fd_closep(&top);
}

static bool is_below(const char *path, const char *dir)
{
	size_t len = strlen(dir);

	return strncmp(path, dir, len) == 0 && (path[len] == '/' || path[len] == '\0');
}

/* A directory that moved takes its watches along; to: NULL where nobody knows. */
static void dirs_moved(struct watching *w, const char *from, const char *to)
{
	for (size_t i = w->n_dirs; i-- > 0;) {
		struct watched *d = &w->dirs[i];
		char *path;

		if (!*d->path || !is_below(d->path, from))
			continue;
		path = to ? join(w, to, d->path + strlen(from) + (d->path[strlen(from)] == '/'))
			  : NULL;
		if (path) {
			free(d->path);
			d->path = path;
			continue;
		}
		(void)inotify_rm_watch(w->inotify, d->wd);
		forget(w, d);
	}
}

/* The second half of a move makes one thing of both. */
static bool complete_move(struct watching *w, uint32_t cookie, const char *to, bool is_dir)
{
	for (size_t i = 0; i < w->n_news; i++) {
		struct pending *p = &w->news[i];

		if (cookie == 0 || p->cookie != cookie || p->change != AGENT_DELETED)
			continue;
		p->to = join(w, to, "");
		p->change = p->to ? AGENT_MOVED : AGENT_DELETED;
		p->cookie = 0;
		if (is_dir)
			dirs_moved(w, p->path, p->to);
		return true;
	}
	return false;
}

static void take_event(struct watching *w, const struct inotify_event *e, const char *path)
{
	bool is_dir = e->mask & IN_ISDIR;

	if (e->mask & IN_MODIFY)
		add_news(w, AGENT_MODIFIED, false, path, 0);
	if (e->mask & IN_DELETE)
		add_news(w, AGENT_DELETED, is_dir, path, 0);
	if (e->mask & IN_MOVED_FROM)
		add_news(w, AGENT_DELETED, is_dir, path, e->cookie);
	if (e->mask & IN_MOVED_TO && complete_move(w, e->cookie, path, is_dir))
		return;
	if (!(e->mask & (IN_CREATE | IN_MOVED_TO)))
		return;
	add_news(w, AGENT_CREATED, is_dir, path, 0);
	if (is_dir)
		enter_new(w, path);
}

static void read_events(struct watching *w)
{
	ssize_t len = read(w->inotify, w->a->chunk, sizeof(w->a->chunk));
	const struct inotify_event *e;
	char *copy = len > 0 ? malloc((size_t)len) : NULL;

	/* A copy of its own: malloc's is aligned. */
	if (!copy)
		return;
	memcpy(copy, w->a->chunk, (size_t)len);
	for (ssize_t at = 0; at < len; at += (ssize_t)(sizeof(*e) + e->len)) {
		struct watched *d;
		char *path;

		e = (const struct inotify_event *)(const void *)(copy + at);
		w->lost |= (e->mask & IN_Q_OVERFLOW) != 0;
		d = find(w, e->wd);
		if (!d)
			continue;
		if (e->mask & IN_IGNORED) {
			w->over |= *d->path == '\0'; /* the top itself is gone */
			forget(w, d);
			continue;
		}
		path = e->len > 0 ? join(w, d->path, e->name) : NULL;
		if (path)
			take_event(w, e, path);
		free(path);
	}
	free(copy);
}

static int tell_one(struct watching *w, enum agent_change change, bool is_dir, const char *path,
		    const char *to, struct cay_error *err)
{
	char texts[2 * (AGENT_PATH_MAX + 1)];
	struct agent_event e = {.change = change,
				.is_dir = is_dir,
				.path_len = (uint32_t)strlen(path),
				.to_len = to ? (uint32_t)strlen(to) : 0};

	memcpy(texts, path, e.path_len);
	if (to)
		memcpy(texts + e.path_len, to, e.to_len);
	return agent_send(w->a, RECORD_EVENT, &e, sizeof(e), texts, e.path_len + e.to_len, err);
}

static int tell(struct watching *w, struct cay_error *err)
{
	int r = 0;

	for (size_t i = 0; i < w->n_news; i++) {
		struct pending *p = &w->news[i];

		/* Moved to where we don't look: gone, with all that is in it. */
		if (p->change == AGENT_DELETED && p->cookie != 0 && p->is_dir)
			dirs_moved(w, p->path, NULL);
		if (r == 0)
			r = tell_one(w, p->change, p->is_dir, p->path, p->to, err);
		free(p->path);
		free(p->to);
	}
	w->n_news = 0;
	if (r == 0 && w->lost)
		r = tell_one(w, AGENT_LOST, false, "", NULL, err);
	w->lost = false;
	return r;
}

static int watch(struct watching *w, struct cay_error *err)
{
	struct pollfd fds[] = {{.fd = w->a->in, .events = POLLIN},
			       {.fd = w->inotify, .events = POLLIN}};

	while (!w->over) {
		if (poll(fds, 2, -1) < 0 && errno != EINTR)
			return agent_fail(err, errno, "watch", w->a->path);
		if (fds[0].revents != 0 || poll(fds, 1, MOMENT_MS) > 0)
			return 0; /* the client has heard enough */
		if (fds[1].revents == 0)
			continue;
		read_events(w);
		if (tell(w, err) < 0)
			return -1;
	}
	return 0;
}

int agent_do_watch(struct agent *a, struct cay_error *err)
{
	_cleanup_(watching_freep) struct watching *w = calloc(1, sizeof(*w));
	int dir = walk_open(a->base, a->path, true);

	if (dir < 0 || !w) {
		(void)agent_fail(err, w ? errno : ENOMEM, "watch the directory", a->path);
		fd_closep(&dir);
		return -1;
	}
	w->a = a;
	w->inotify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (w->inotify < 0) {
		(void)agent_fail(err, errno, "watch", a->path);
		(void)close(dir);
		return -1;
	}
	if (enter(w, dir, "", false, err) < 0 || w->lost)
		return cay_fail(err, CAY_E_TOO_LARGE, 0,
				"%s has more than %d directories, or no watches are left", a->path,
				WATCHES_MAX);
	/* From here on nothing is missed. */
	if (agent_send_stat(a, a->base, a->path, 0, err) < 0)
		return -1;
	return watch(w, err);
}
