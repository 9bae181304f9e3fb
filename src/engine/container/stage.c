#include "engine/container/stage.h"

#include "base/attr.h"
#include "base/fd.h"
#include "core/limits.h"
#include "engine/agent_wire.h"
#include "engine/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int stage_make(struct stage *s, struct cay_error *err)
{
	char name[64];

	(void)snprintf(name, sizeof(name), "/tmp/cay-files-%d-XXXXXX", (int)getpid());
	if (!mkdtemp(name))
		return cay_fail(err, CAY_E_INTERNAL, errno, "make a directory for files");
	(void)snprintf(s->top, sizeof(s->top), "%s", name);
	s->top_fd = open(s->top, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (s->top_fd < 0 || mkdirat(s->top_fd, "workspace", 0755) < 0 ||
	    mkdirat(s->top_fd, "tmp", 0755) < 0)
		return cay_fail(err, CAY_E_INTERNAL, errno, "make a directory for files");
	s->workspace = openat(s->top_fd, "workspace", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	s->tmp = openat(s->top_fd, "tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (s->workspace < 0 || s->tmp < 0)
		return cay_fail(err, CAY_E_INTERNAL, errno, "make a directory for files");
	return 0;
}

void stage_remove(struct stage *s)
{
	fd_closep(&s->workspace);
	fd_closep(&s->tmp);
	if (s->top_fd >= 0)
		tree_empty(s->top_fd);
	fd_closep(&s->top_fd);
	if (s->top[0])
		(void)rmdir(s->top);
	s->top[0] = '\0';
}

/* One conversation with the agent. */
struct talk {
	int to, from;
	const char *at; /* the path, for errors */
	char path[AGENT_PATH_MAX + 1];
	char chunk[AGENT_CHUNK];
};

static int lost(struct cay_error *err)
{
	return cay_fail(err, CAY_E_ENGINE, 0, "the container's files can't be reached any more");
}

/* -1 without words: what the agent says last is why. */
static int say(const struct talk *t, enum agent_record_kind kind, const void *a, size_t a_len,
	       const void *b, size_t b_len, const void *c, size_t c_len)
{
	struct agent_record r = {.kind = kind, .len = (uint32_t)(a_len + b_len + c_len)};

	return fd_write_all(t->to, &r, sizeof(r)) < 0 || fd_write_all(t->to, a, a_len) < 0 ||
			       fd_write_all(t->to, b, b_len) < 0 ||
			       fd_write_all(t->to, c, c_len) < 0
		       ? -1
		       : 0;
}

static int ask(const struct talk *t, enum agent_op op, uint64_t max)
{
	struct agent_request q = {
		.op = op,
		.mode = AGENT_MODE_KEEP,
		.path_len = (uint32_t)strlen(t->at),
		.length = max,
	};

	return fd_write_all(t->to, &q, sizeof(q)) < 0 || fd_write_all(t->to, t->at, q.path_len) < 0
		       ? -1
		       : 0;
}

/* The next record's head, and of short ones the bytes in chunk. */
static int hear(struct talk *t, struct agent_record *ret, struct cay_error *err)
{
	if (fd_read_exact(t->from, ret, sizeof(*ret)) < 0 || ret->len > sizeof(t->chunk) ||
	    fd_read_exact(t->from, t->chunk, ret->len) < 0)
		return lost(err);
	if (ret->kind != RECORD_ERROR)
		return 0;
	if (ret->len != sizeof(*err))
		return lost(err);
	memcpy(err, t->chunk, sizeof(*err));
	cay_error_mend(err);
	return -1;
}

static int send_bytes(struct talk *t, int fd, struct cay_error *err)
{
	ssize_t n;

	while ((n = read(fd, t->chunk, sizeof(t->chunk))) > 0)
		if (say(t, RECORD_DATA, t->chunk, (size_t)n, NULL, 0, NULL, 0) < 0)
			return -1;
	return n < 0 ? cay_fail(err, CAY_E_INTERNAL, errno, "read a file that is put") : 0;
}

static int send_tree(struct talk *t, int dir, size_t len, unsigned depth, struct cay_error *err);

static int send_entry(struct talk *t, int dir, const char *name, size_t len, unsigned depth,
		      struct cay_error *err)
{
	_cleanup_(fd_closep) int fd = -1;
	struct agent_entry e = {0};
	char target[AGENT_PATH_MAX + 1];
	ssize_t link = 0;
	struct stat st;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return cay_fail(err, CAY_E_INTERNAL, errno, "look at a file that is put");
	e.mode = st.st_mode & 0777;
	e.mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
	e.path_len = (uint32_t)len;
	e.size = AGENT_SIZE_UNKNOWN;
	e.type = S_ISDIR(st.st_mode) ? AGENT_DIR : S_ISLNK(st.st_mode) ? AGENT_LINK : AGENT_FILE;
	if (S_ISLNK(st.st_mode))
		link = readlinkat(dir, name, target, sizeof(target));
	else
		fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (link < 0 || link > (ssize_t)AGENT_PATH_MAX || (fd < 0 && link == 0))
		return cay_fail(err, CAY_E_INTERNAL, errno, "open a file that is put");
	e.link_len = (uint32_t)link;
	if (say(t, RECORD_ENTRY, &e, sizeof(e), t->path, len, target, (size_t)link) < 0)
		return -1;
	if (S_ISDIR(st.st_mode))
		return send_tree(t, take_fd(&fd), len, depth + 1, err);
	return S_ISREG(st.st_mode) ? send_bytes(t, fd, err) : 0;
}

/* Takes dir over. len: of the path so far. */
static int send_tree(struct talk *t, int dir, size_t len, unsigned depth, struct cay_error *err)
{
	DIR *d = fd_opendir(dir);
	struct dirent *e;
	int r = 0;

	if (!d || depth > TREE_DEPTH_MAX) {
		r = cay_fail(err, CAY_E_TOO_LARGE, d ? 0 : errno, "what is put is too deep");
	}
	while (r == 0 && (e = readdir(d))) {
		size_t name = strlen(e->d_name);

		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		if (len + 1 + name > AGENT_PATH_MAX) {
			r = cay_fail(err, CAY_E_TOO_LARGE, 0, "a path that is put is too long");
			break;
		}
		(void)snprintf(t->path + len, sizeof(t->path) - len, "%s%s", len ? "/" : "",
			       e->d_name);
		r = send_entry(t, dirfd(d), e->d_name, len + (len ? 1 : 0) + name, depth, err);
	}
	if (d)
		(void)closedir(d);
	return r;
}

static struct talk *talk_new(const char *path, int to, int from, struct cay_error *err)
{
	struct talk *t = calloc(1, sizeof(*t));

	if (!t) {
		(void)cay_fail(err, CAY_E_INTERNAL, ENOMEM, "pass on files");
		return NULL;
	}
	t->to = to;
	t->from = from;
	t->at = path;
	return t;
}

int stage_in(int dir, const char *path, int *to, int from, struct cay_error *err)
{
	struct talk *t = talk_new(path, *to, from, err);
	struct agent_record r;
	struct cay_error ours = {0};
	int e;

	if (!t)
		return -1;
	e = ask(t, AGENT_TREE_IN, 0);
	if (e == 0)
		e = send_tree(t, fcntl(dir, F_DUPFD_CLOEXEC, 3), 0, 0, &ours);
	if (e == 0)
		e = say(t, RECORD_END, NULL, 0, NULL, 0, NULL, 0);
	fd_closep(to);
	if (ours.code != CAY_OK) {
		*err = ours;
		e = -1;
	} else {
		/* It says why it took no more, where it did not. */
		e = hear(t, &r, err);
		if (e == 0 && r.kind != RECORD_END)
			e = lost(err);
	}
	free(t);
	return e;
}

/* Where the bytes go that come. */
struct coming {
	struct talk *talk;
	int dir, file;
	uint64_t left; /* of all that may come */
	uint32_t entries;
};

/* Each part of it a plain name. */
static bool path_ok(const char *path, size_t len)
{
	if (len == 0 || len > AGENT_PATH_MAX || memchr(path, '\0', len))
		return false;
	for (size_t at = 0; at <= len;) {
		const char *end = memchr(path + at, '/', len - at);
		size_t n = end ? (size_t)(end - path) - at : len - at;

		if (n == 0 || n > NAME_MAX || (n == 1 && path[at] == '.') ||
		    (n == 2 && path[at] == '.' && path[at + 1] == '.'))
			return false;
		at += n + 1;
	}
	return true;
}

/* The directory that the last part of the path is in, no link on the way; path is cut there. */
static int walk(int top, char *path, const char **ret_name)
{
	_cleanup_(fd_closep) int dir = fcntl(top, F_DUPFD_CLOEXEC, 3);
	char *slash;

	while (dir >= 0 && (slash = strchr(path, '/'))) {
		int next;

		*slash = '\0';
		next = openat(dir, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (next < 0)
			return -1;
		(void)close(dir);
		dir = next;
		path = slash + 1;
	}
	*ret_name = path;
	return take_fd(&dir);
}

static int take_entry(struct coming *c, size_t len, struct cay_error *err)
{
	char path[AGENT_PATH_MAX + 1];
	_cleanup_(fd_closep) int dir = -1;
	const char *name;
	struct agent_entry e;

	fd_closep(&c->file);
	if (len < sizeof(e))
		return lost(err);
	memcpy(&e, c->talk->chunk, sizeof(e));
	if (e.path_len > len - sizeof(e) || c->entries++ >= AGENT_TREE_MAX)
		return lost(err);
	if (e.type != AGENT_DIR && e.type != AGENT_FILE)
		return 0;
	if (e.path_len == 0)
		return 0; /* the top itself */
	if (!path_ok(c->talk->chunk + sizeof(e), e.path_len))
		return lost(err);
	(void)snprintf(path, sizeof(path), "%.*s", (int)e.path_len, c->talk->chunk + sizeof(e));
	dir = walk(c->dir, path, &name);
	if (dir < 0)
		return lost(err);
	if (e.type == AGENT_DIR)
		return mkdirat(dir, name, 0700) < 0 ? lost(err) : 0;
	c->file = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	return c->file < 0 ? cay_fail(err, CAY_E_INTERNAL, errno, "bring a file out") : 0;
}

static int take_data(struct coming *c, size_t len, struct cay_error *err)
{
	int r;

	if (len > c->left)
		return cay_fail(err, CAY_E_TOO_LARGE, 0, "the files are larger than their disk");
	c->left -= len;
	if (c->file < 0)
		return lost(err);
	r = fd_write_all(c->file, c->talk->chunk, len);
	return r < 0 ? cay_fail(err, CAY_E_INTERNAL, -r, "bring a file out") : 0;
}

int stage_out(int dir, const char *path, uint64_t max, int *to, int from, struct cay_error *err)
{
	struct talk *t = talk_new(path, *to, from, err);
	struct coming c = {.talk = t, .dir = dir, .file = -1, .left = max};
	struct agent_record r = {0};
	int e = 0;

	if (!t)
		return -1;
	(void)ask(t, AGENT_TREE_OUT, max);
	while (e == 0 && r.kind != RECORD_END) {
		e = hear(t, &r, err);
		if (e == 0 && r.kind == RECORD_ENTRY)
			e = take_entry(&c, r.len, err);
		else if (e == 0 && r.kind == RECORD_DATA)
			e = take_data(&c, r.len, err);
		else if (e == 0 && r.kind != RECORD_END)
			e = lost(err);
	}
	fd_closep(&c.file);
	fd_closep(to);
	free(t);
	return e;
}
