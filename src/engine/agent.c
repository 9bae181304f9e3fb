#include "engine/agent.h"

#include "base/fd.h"
#include "engine/agent_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

int agent_send_bytes(struct agent *a, int fd, uint64_t at, uint64_t length, struct cay_error *err)
{
	while (length > 0) {
		size_t want = length < sizeof(a->chunk) ? (size_t)length : sizeof(a->chunk);
		ssize_t n = pread(fd, a->chunk, want, (off_t)at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return agent_fail(err, errno, "read", a->path);
		if (n == 0)
			break;
		if (agent_send(a, RECORD_DATA, a->chunk, (size_t)n, NULL, 0, err) < 0)
			return -1;
		at += (uint64_t)n;
		length -= (uint64_t)n;
		a->end.bytes += (uint64_t)n;
	}
	return 0;
}

/* A file that grows while it is read is read as far as it went in the beginning. */
int agent_do_read(struct agent *a, struct cay_error *err)
{
	_cleanup_(fd_closep) int fd = -1;
	uint64_t size, length;
	struct stat st;

	fd = a->ask.flags & AGENT_LAYER ? agent_open_layered(a, &st)
					: agent_open_file(a, a->base, a->path, O_RDONLY, &st);
	if (fd < 0 && errno == EINVAL)
		return cay_fail(err, CAY_E_INVALID, 0, "%s is no regular file", a->path);
	if (fd < 0)
		return agent_fail(err, errno, "read", a->path);
	size = st.st_size > 0 ? (uint64_t)st.st_size : AGENT_SIZELESS_MAX;
	if (a->ask.offset > INT64_MAX)
		return cay_fail(err, CAY_E_INVALID, 0, "offset is too large");
	length = a->ask.offset < size ? size - a->ask.offset : 0;
	if (a->ask.length < length)
		length = a->ask.length;
	if (agent_send_entry(a, &st, NULL, NULL, 0, err) < 0)
		return -1;
	return agent_send_bytes(a, fd, a->ask.offset, length, err);
}

int agent_do_stat(struct agent *a, struct cay_error *err)
{
	return agent_send_stat(a, a->base, a->path,
			       a->ask.flags & AGENT_FOLLOW ? 0 : AT_SYMLINK_NOFOLLOW, err);
}

int agent_do_mkdir(struct agent *a, struct cay_error *err)
{
	unsigned mode = a->ask.mode == AGENT_MODE_KEEP ? 0755 : a->ask.mode & 0777;
	_cleanup_(fd_closep) int dir = -1, made = -1;
	const char *name;
	struct stat st;

	a->end.entries = fstatat(a->base, a->path, &st, AT_SYMLINK_NOFOLLOW) < 0;
	if (a->ask.flags & AGENT_PARENTS) {
		if (agent_make_dirs(a, a->path, mode, err) < 0)
			return -1;
		made = openat(a->base, a->path, O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (made < 0 && errno == ENOTDIR)
			errno = EEXIST;
		if (made < 0)
			return agent_fail(err, errno, "make the directory", a->path);
		return agent_send_stat(a, made, ".", 0, err);
	}
	if (agent_open_parent(a, a->path, false, &dir, &name, err) < 0)
		return -1;
	if (mkdirat(dir, name, mode) < 0)
		return agent_fail(err, errno, "make the directory", a->path);
	return agent_send_stat(a, dir, name, AT_SYMLINK_NOFOLLOW, err);
}

#ifndef RENAME_NOREPLACE /* musl's before 1.2.4 */
#define RENAME_NOREPLACE 1
#endif

static int move_entry(int from, const char *name, int to, const char *to_name, bool overwrite)
{
	/* Not in every C library. */
	return overwrite ? renameat(from, name, to, to_name)
			 : (int)syscall(SYS_renameat2, from, name, to, to_name, RENAME_NOREPLACE);
}

/* From /workspace to /tmp, say, which are mounts of their own. */
static int move_file(struct agent *a, int from, const char *name, int to, const char *to_name,
		     struct cay_error *err)
{
	_cleanup_(draft_done) struct draft d = DRAFT_NONE;
	_cleanup_(fd_closep) int fd = -1;
	struct stat st;
	ssize_t n;

	fd = agent_open_file(a, from, name, O_RDONLY | O_NOFOLLOW, &st);
	if (fd < 0) {
		(void)agent_fail(err, EXDEV, "move", a->path);
		return cay_hint(err, "only files move between file systems: copy, then remove");
	}
	if (draft_open(&d, to, a->arg, err) < 0)
		return -1;
	while ((n = read(fd, a->chunk, sizeof(a->chunk))) > 0)
		if (draft_write(&d, a->chunk, (size_t)n, a->arg, err) < 0)
			return -1;
	if (n < 0)
		return agent_fail(err, errno, "move", a->path);
	if (draft_commit(&d, to_name, st.st_mode & 0777,
			 (long long)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec,
			 a->ask.flags & AGENT_OVERWRITE, a->arg, err) < 0)
		return -1;
	return unlinkat(from, name, 0) < 0 ? agent_fail(err, errno, "move", a->path) : 0;
}

int agent_do_move(struct agent *a, struct cay_error *err)
{
	_cleanup_(fd_closep) int from = -1, to = -1;
	const char *name, *to_name;

	if (a->ask.arg_len == 0 || a->ask.arg_len > AGENT_PATH_MAX)
		return cay_fail(err, CAY_E_INVALID, 0, "the path to move to is empty or too long");
	if (agent_open_parent(a, a->path, false, &from, &name, err) < 0 ||
	    agent_open_parent(a, a->arg, a->ask.flags & AGENT_PARENTS, &to, &to_name, err) < 0)
		return -1;
	if (move_entry(from, name, to, to_name, a->ask.flags & AGENT_OVERWRITE) < 0) {
		/* What is in the way is at the other end. */
		if (errno != EXDEV)
			return agent_fail(err, errno, "move", errno == EEXIST ? a->arg : a->path);
		if (move_file(a, from, name, to, to_name, err) < 0)
			return -1;
	}
	return agent_send_stat(a, to, to_name, AT_SYMLINK_NOFOLLOW, err);
}

static int receive_body(struct agent *a, struct draft *d, struct cay_error *err)
{
	struct agent_record r;

	for (;;) {
		if (agent_receive(a, &r, err) < 0)
			return -1;
		if (r.kind == RECORD_END)
			return 0;
		if (r.kind != RECORD_DATA)
			return cay_fail(err, CAY_E_INVALID, 0, "unexpected record");
		if (draft_write(d, a->chunk, r.len, a->path, err) < 0)
			return -1;
	}
}

/*
 * To what is there: not by way of a symlink, which may be one of /proc's that lead
 * anywhere. An append that was cut off is taken back unless others wrote as well.
 */
static int append(struct agent *a, int fd, off_t old, struct cay_error *err)
{
	struct draft d = {.dir = -1, .fd = fd};
	struct stat st;
	int r = receive_body(a, &d, err);

	a->end.bytes = d.written;
	if (r < 0 && fstat(fd, &st) == 0 && st.st_size > old &&
	    (uint64_t)(st.st_size - old) <= d.written && ftruncate(fd, old) < 0)
		return -1; /* it was failing anyhow */
	return r;
}

static int write_new(struct agent *a, int dir, const char *name, struct cay_error *err)
{
	_cleanup_(draft_done) struct draft d = DRAFT_NONE;

	if (draft_open(&d, dir, a->path, err) < 0 || receive_body(a, &d, err) < 0)
		return -1;
	a->end.bytes = d.written;
	return draft_commit(&d, name, a->ask.mode, -1,
			    a->ask.flags & (AGENT_OVERWRITE | AGENT_APPEND), a->path, err);
}

int agent_do_write(struct agent *a, struct cay_error *err)
{
	_cleanup_(fd_closep) int dir = -1, fd = -1;
	const char *name;
	struct stat st;
	int r;

	if (a->path[a->ask.path_len - 1] == '/')
		return agent_fail(err, EISDIR, "write", a->path);
	if (agent_open_parent(a, a->path, a->ask.flags & AGENT_PARENTS, &dir, &name, err) < 0)
		return -1;
	a->end.entries = fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0;
	if (a->end.entries == 0 && S_ISDIR(st.st_mode))
		return agent_fail(err, EISDIR, "write", a->path);
	if (a->ask.flags & AGENT_APPEND)
		fd = agent_open_file(a, dir, name, O_WRONLY | O_APPEND | O_NOFOLLOW, &st);
	if (a->ask.flags & AGENT_APPEND && fd < 0 && errno != ENOENT)
		return agent_fail(err, errno, "append to", a->path);
	r = fd >= 0 ? append(a, fd, st.st_size, err) : write_new(a, dir, name, err);
	return r < 0 ? -1 : agent_send_stat(a, dir, name, AT_SYMLINK_NOFOLLOW, err);
}

static int (*const ops[AGENT_OPS])(struct agent *a, struct cay_error *err) = {
	[AGENT_READ] = agent_do_read,       [AGENT_WRITE] = agent_do_write,
	[AGENT_LIST] = agent_do_list,       [AGENT_STAT] = agent_do_stat,
	[AGENT_MKDIR] = agent_do_mkdir,     [AGENT_MOVE] = agent_do_move,
	[AGENT_REMOVE] = agent_do_remove,   [AGENT_TREE_OUT] = agent_do_tree_out,
	[AGENT_TREE_IN] = agent_do_tree_in, [AGENT_WATCH] = agent_do_watch,
	[AGENT_DIFF] = agent_do_diff,
};

static int serve(struct agent *a, const char *base, struct cay_error *err)
{
	/* A full disk and a vanished client are told by errno, not by death. */
	(void)signal(SIGXFSZ, SIG_IGN);
	(void)signal(SIGPIPE, SIG_IGN);
	if (agent_read_request(a, err) < 0)
		return -1;
	(void)umask(0);
	/* The user's own processes have no business with our memory and fds. */
	(void)prctl(PR_SET_DUMPABLE, 0);
	(void)stat("/proc/self/exe", &a->self);
	if (a->layers < 0 && (a->ask.flags & AGENT_LAYER || a->ask.op == AGENT_DIFF))
		return cay_fail(err, CAY_E_UNSUPPORTED, 0, "the workspace is no overlay");
	a->base = open(base, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (a->base < 0)
		return agent_fail(err, errno, "open", base);
	return ops[a->ask.op](a, err);
}

int agent_serve(const char *base, int in_fd, int out_fd, int layers)
{
	struct agent *a = calloc(1, sizeof(*a));
	struct cay_error err = {0}, gone = {0};
	int r;

	if (!a)
		return -1;
	a->in = in_fd;
	a->out = out_fd;
	a->base = -1;
	a->layers = layers;
	r = serve(a, base, &err);
	if (r == 0)
		r = agent_send(a, RECORD_END, &a->end, sizeof(a->end), NULL, 0, &gone);
	else
		(void)agent_send(a, RECORD_ERROR, &err, sizeof(err), NULL, 0, &gone);
	fd_closep(&a->base);
	free(a);
	return r;
}
