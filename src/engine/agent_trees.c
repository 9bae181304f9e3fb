/*
 * Whole trees, out and in.
 */
#include "engine/agent_impl.h"

#include "base/attr.h"
#include "base/fd.h"
#include "base/glob.h"
#include "core/limits.h"
#include "engine/agent_walk.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

_Static_assert(GLOB_PARTS_MAX >= 2 * TREE_DEPTH_MAX + 8, "a glob may be as deep as a tree");

/*
 * Out
 */

struct leaving {
	struct walk walk;
	const char *glob;   /* NULL: everything */
	unsigned n_glob;    /* which it is */
	const char *prefix; /* in front of the paths given out */
	uint64_t since;     /* only what was changed after this; 0: all */
};

static int count_entry(struct agent *a, struct cay_error *err)
{
	unsigned max = a->ask.flags & AGENT_GET ? FILES_OUT_MAX : AGENT_TREE_MAX;

	if (a->end.entries >= max)
		return cay_fail(err, CAY_E_TOO_LARGE, 0, "%s: more than %u files", a->path, max);
	a->end.entries++;
	return 0;
}

/* Not the time that a program can set. */
static uint64_t changed_ns(const struct stat *st)
{
	return (uint64_t)st->st_ctim.tv_sec * 1000000000 + (uint64_t)st->st_ctim.tv_nsec;
}

/* What can't be opened is left out, and counted. */
static int send_file(struct leaving *l, int dir, const char *name, const char *path,
		     struct cay_error *err)
{
	struct agent *a = l->walk.a;
	char full[AGENT_PATH_MAX + 1];
	_cleanup_(fd_closep) int fd = -1;
	struct stat st;
	int n = snprintf(full, sizeof(full), "%s%s", l->prefix, path);

	fd = agent_open_file(a, dir, name, O_RDONLY | O_NOFOLLOW, &st);
	if (fd < 0 && (errno == EMFILE || errno == ENOMEM || errno == ENFILE))
		return agent_fail(err, errno, "open", path);
	if (fd < 0 || n < 0 || (size_t)n >= sizeof(full)) {
		a->end.skipped++;
		return 0;
	}
	if ((uint64_t)st.st_size > a->ask.length ||
	    a->end.bytes > a->ask.length - (uint64_t)st.st_size)
		return cay_fail(err, CAY_E_TOO_LARGE, 0, "%s: more than %llu bytes", a->path,
				(unsigned long long)a->ask.length);
	if (count_entry(a, err) < 0 || agent_send_entry(a, &st, full, NULL, l->n_glob, err) < 0)
		return -1;
	return agent_send_bytes(a, fd, 0, (uint64_t)st.st_size, err);
}

static int send_link(struct walk *w, int dir, const char *name, const struct stat *st,
		     struct cay_error *err)
{
	char target[AGENT_PATH_MAX + 1];
	ssize_t n = readlinkat(dir, name, target, sizeof(target) - 1);

	if (n <= 0) {
		w->a->end.skipped++;
		return 0;
	}
	target[n] = '\0';
	return count_entry(w->a, err) < 0 ? -1
					  : agent_send_entry(w->a, st, w->path, target, 0, err);
}

static int leave_one(struct walk *w, int dir, const char *name, const struct stat *st,
		     struct cay_error *err)
{
	struct leaving *l = (struct leaving *)w; /* its first */
	bool get = w->a->ask.flags & AGENT_GET;

	if (S_ISDIR(st->st_mode)) {
		if (l->glob && !glob_may_match_below(l->glob, w->path))
			return WALK_SKIP;
		if (get)
			return WALK_ON;
		return count_entry(w->a, err) < 0
			       ? -1
			       : agent_send_entry(w->a, st, w->path, NULL, 0, err);
	}
	if (S_ISLNK(st->st_mode) && !get)
		return send_link(w, dir, name, st, err);
	if (S_ISREG(st->st_mode) && l->since && changed_ns(st) <= l->since)
		return 0;
	if (S_ISREG(st->st_mode))
		return l->glob && !glob_matches(l->glob, w->path)
			       ? 0
			       : send_file(l, dir, name, w->path, err);
	w->a->end.skipped += !get;
	return 0;
}

static int leave_top(struct agent *a, const char *top, struct leaving *l, struct cay_error *err)
{
	int dir = walk_open(a->base, top, true);

	l->walk = (struct walk){
		.a = a, .visit = leave_one, .depth_max = TREE_DEPTH_MAX, .deeper_fails = true};
	if (dir < 0)
		return agent_fail(err, errno, "read the directory", top);
	return walk_tree(&l->walk, dir, err) < 0 ? -1 : 0;
}

/* As files_get(): below the workspace, or below /tmp, and nowhere else. */
static int leave_glob(struct agent *a, const char *glob, unsigned n, struct cay_error *err)
{
	struct leaving l = {.n_glob = n, .prefix = ""};
	const char *top = a->path;

	if (strncmp(glob, "/workspace", 10) == 0 && (glob[10] == '/' || glob[10] == '\0')) {
		glob += 10;
	} else if (strncmp(glob, "/tmp", 4) == 0 && (glob[4] == '/' || glob[4] == '\0')) {
		glob += 4;
		top = "/tmp";
		l.prefix = "/tmp/";
	} else if (glob[0] == '/') {
		return cay_fail(err, CAY_E_INVALID, 0, "%s is not below /workspace or /tmp", glob);
	}
	glob += strspn(glob, "/");
	while (strncmp(glob, "./", 2) == 0)
		glob += 2 + strspn(glob + 2, "/");
	if (a->ask.offset && top == a->path && strcmp(glob, "*") == 0)
		l.since = a->ask.offset;
	else if (*glob != '\0' && strcmp(glob, ".") != 0)
		l.glob = glob;
	return leave_top(a, top, &l, err);
}

static int leave_globs(struct agent *a, struct cay_error *err)
{
	const char *end = a->arg + a->ask.arg_len;
	unsigned n = 0;

	for (const char *glob = a->arg; glob < end; glob += strlen(glob) + 1, n++) {
		if (n >= AGENT_GLOBS_MAX)
			return cay_fail(err, CAY_E_INVALID, 0, "more than %u patterns",
					AGENT_GLOBS_MAX);
		if (leave_glob(a, glob, n, err) < 0)
			return -1;
	}
	return 0;
}

int agent_do_tree_out(struct agent *a, struct cay_error *err)
{
	struct leaving l = {.walk = {.a = a}, .prefix = ""};
	_cleanup_(fd_closep) int dir = -1;
	const char *name;
	struct stat st;

	if (a->ask.flags & AGENT_GET)
		return leave_globs(a, err);
	if (fstatat(a->base, a->path, &st, 0) < 0)
		return agent_fail(err, errno, "read", a->path);
	if (S_ISDIR(st.st_mode))
		return leave_top(a, a->path, &l, err);
	/* One file, under its own name. */
	if (agent_open_parent(a, a->path, false, &dir, &name, err) < 0)
		return -1;
	if (send_file(&l, dir, name, name, err) < 0)
		return -1;
	return a->end.entries > 0
		       ? 0
		       : cay_fail(err, CAY_E_INVALID, 0, "%s is no regular file", a->path);
}

/*
 * In. Each part of a path is opened by itself, below the top, and must be no
 * symlink: neither one that was there nor one that came in the same tree.
 */

struct coming {
	struct agent *a;
	int top;
	int dir; /* of the file that is coming */
	struct draft draft;
	struct agent_entry entry;
	char path[AGENT_PATH_MAX + 1], target[AGENT_PATH_MAX + 1], name[NAME_MAX + 1];
};

static void coming_done(struct coming *c)
{
	draft_done(&c->draft);
	fd_closep(&c->dir);
	fd_closep(&c->top);
}

static int bad_entry(struct cay_error *err, const char *path)
{
	return cay_fail(err, CAY_E_INVALID, 0, "a tree can't have the entry '%s'", path);
}

/* The next part of a path into name; false if it is none. */
static bool next_part(const char **path, char name[NAME_MAX + 1])
{
	size_t len = strcspn(*path, "/");

	if (len > NAME_MAX || !agent_is_name(*path, len))
		return false;
	memcpy(name, *path, len);
	name[len] = '\0';
	*path += len;
	return true;
}

/* Opens the directory that path lies in; its last name goes to name. */
static int open_below(struct coming *c, const char *path, bool make, char name[NAME_MAX + 1],
		      struct cay_error *err)
{
	_cleanup_(fd_closep) int at = fcntl(c->top, F_DUPFD_CLOEXEC, 3);
	const char *rest = path;

	for (int depth = 0; at >= 0; depth++) {
		int next;

		if (!next_part(&rest, name) || depth > TREE_DEPTH_MAX)
			return bad_entry(err, path);
		if (*rest == '\0')
			return take_fd(&at);
		rest++;
		next = openat(at, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		/* Another may make it at the same time. */
		if (next < 0 && errno == ENOENT && make &&
		    (mkdirat(at, name, 0755) == 0 || errno == EEXIST))
			next = openat(at, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (next < 0 && (errno == ENOTDIR || errno == ELOOP))
			return cay_fail(err, CAY_E_CONFLICT, 0,
					"'%s' lies below what is no directory", path);
		if (next < 0)
			break;
		fd_closep(&at);
		at = next;
	}
	return agent_fail(err, errno, "make", path);
}

static int finish_file(struct coming *c, struct cay_error *err)
{
	struct agent *a = c->a;

	if (c->draft.fd < 0)
		return 0;
	if (c->entry.size != AGENT_SIZE_UNKNOWN && c->draft.written != c->entry.size)
		return cay_fail(err, CAY_E_INVALID, 0, "'%s' was cut short", c->path);
	a->end.bytes += c->draft.written;
	return draft_commit(&c->draft, c->name, c->entry.mode, c->entry.mtime_ns, true, c->path,
			    err);
}

/* Makes a link by a name that is free, then that name by rename: what was there is replaced. */
static int place_link(struct coming *c, int from, const char *from_name, struct cay_error *err)
{
	char temp[32];
	int r;

	draft_name(temp);
	r = from_name ? linkat(from, from_name, c->dir, temp, 0)
		      : symlinkat(c->target, c->dir, temp);
	if (r == 0)
		r = renameat(c->dir, temp, c->dir, c->name);
	if (r < 0)
		(void)agent_fail(err, errno, "make the link", c->path);
	/* Also where both were the same file, and rename() did nothing. */
	(void)unlinkat(c->dir, temp, 0);
	return r;
}

static int place_hard_link(struct coming *c, struct cay_error *err)
{
	char name[NAME_MAX + 1];
	_cleanup_(fd_closep) int from = open_below(c, c->target, false, name, err);

	return from < 0 ? -1 : place_link(c, from, name, err);
}

/* Ours to enter and fill, whatever the tree says; one that is there stays as it is. */
static int place_dir(struct coming *c, struct cay_error *err)
{
	struct stat st;

	if (mkdirat(c->dir, c->name, (c->entry.mode & 0777) | 0700) == 0)
		return 0;
	if (errno == EEXIST && fstatat(c->dir, c->name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	    S_ISDIR(st.st_mode))
		return 0;
	return agent_fail(err, errno, "make the directory", c->path);
}

static int cut_entry(struct coming *c, size_t len, struct cay_error *err)
{
	const char *texts = c->a->chunk + sizeof(c->entry);
	struct agent_entry *e = &c->entry;

	if (len < sizeof(*e))
		return bad_entry(err, "");
	memcpy(e, c->a->chunk, sizeof(*e));
	if (e->path_len > AGENT_PATH_MAX || e->link_len > AGENT_PATH_MAX ||
	    len - sizeof(*e) != (size_t)e->path_len + e->link_len ||
	    memchr(texts, '\0', e->path_len + e->link_len))
		return bad_entry(err, "");
	memcpy(c->path, texts, e->path_len);
	c->path[e->path_len] = '\0';
	memcpy(c->target, texts + e->path_len, e->link_len);
	c->target[e->link_len] = '\0';
	return 0;
}

static int begin_entry(struct coming *c, size_t len, struct cay_error *err)
{
	if (finish_file(c, err) < 0 || cut_entry(c, len, err) < 0 || count_entry(c->a, err) < 0)
		return -1;
	fd_closep(&c->dir);
	c->dir = open_below(c, c->path, true, c->name, err);
	if (c->dir < 0)
		return -1;
	switch (c->entry.type) {
	case AGENT_FILE:
		return draft_open(&c->draft, c->dir, c->path, err);
	case AGENT_DIR:
		return place_dir(c, err);
	case AGENT_LINK:
		return place_link(c, -1, NULL, err);
	case AGENT_HARD_LINK:
		return place_hard_link(c, err);
	default:
		return bad_entry(err, c->path);
	}
}

static int take_data(struct coming *c, size_t len, struct cay_error *err)
{
	if (c->draft.fd < 0 || c->entry.size - c->draft.written < len)
		return cay_fail(err, CAY_E_INVALID, 0, "'%s' is longer than it said", c->path);
	return draft_write(&c->draft, c->a->chunk, len, c->path, err);
}

int agent_do_tree_in(struct agent *a, struct cay_error *err)
{
	_cleanup_(coming_done) struct coming c = {
		.a = a, .top = -1, .dir = -1, .draft = DRAFT_NONE};
	struct agent_record r;

	if (agent_make_dirs(a, a->path, 0755, err) < 0)
		return -1;
	c.top = openat(a->base, a->path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (c.top < 0)
		return agent_fail(err, errno, "open the directory", a->path);
	for (;;) {
		if (agent_receive(a, &r, err) < 0)
			return -1;
		if (r.kind == RECORD_END)
			return finish_file(&c, err);
		if (r.kind == RECORD_DATA
			    ? take_data(&c, r.len, err) < 0
			    : r.kind != RECORD_ENTRY || begin_entry(&c, r.len, err) < 0)
			return r.kind == RECORD_DATA || r.kind == RECORD_ENTRY
				       ? -1
				       : cay_fail(err, CAY_E_INVALID, 0, "unexpected record");
	}
}
