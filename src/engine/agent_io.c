#include "engine/agent_impl.h"

#include "base/attr.h"
#include "base/fd.h"
#include "base/parse.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <unistd.h>

static int cut_off(struct cay_error *err, int r)
{
	return cay_fail(err, CAY_E_INVALID, r == -EPIPE ? 0 : -r, "the request was cut off");
}

/* One of the two texts of a request; what no path of the kernel's can hold is refused here. */
static int read_text(struct agent *a, char *text, size_t len, size_t max, struct cay_error *err)
{
	int r;

	if (len > max)
		return cay_fail(err, CAY_E_INVALID, 0, "a path may have %zu bytes at most", max);
	r = fd_read_exact(a->in, text, len);
	text[r < 0 ? 0 : len] = '\0';
	return r < 0 ? cut_off(err, r) : 0;
}

int agent_read_request(struct agent *a, struct cay_error *err)
{
	struct agent_request *ask = &a->ask;
	int r = fd_read_exact(a->in, ask, sizeof(*ask));

	if (r < 0)
		return cut_off(err, r);
	if (ask->op == 0 || ask->op >= AGENT_OPS || ask->flags & ~AGENT_FLAGS)
		return cay_fail(err, CAY_E_INVALID, 0, "unknown operation on files");
	if (read_text(a, a->path, ask->path_len, AGENT_PATH_MAX, err) < 0 ||
	    read_text(a, a->arg, ask->arg_len, AGENT_ARG_MAX, err) < 0)
		return -1;
	if (ask->path_len == 0)
		return cay_fail(err, CAY_E_INVALID, 0, "the path is empty");
	/* Globs have NULs between them. */
	if (strlen(a->path) != ask->path_len ||
	    (ask->op != AGENT_TREE_OUT && strlen(a->arg) != ask->arg_len))
		return cay_fail(err, CAY_E_INVALID, 0, "a path has a NUL in it");
	return 0;
}

int agent_receive(struct agent *a, struct agent_record *ret, struct cay_error *err)
{
	int r = fd_read_exact(a->in, ret, sizeof(*ret));

	if (r == 0 && ret->len > sizeof(a->chunk))
		return cay_fail(err, CAY_E_INVALID, 0, "a record is too long");
	if (r == 0)
		r = fd_read_exact(a->in, a->chunk, ret->len);
	return r < 0 ? cut_off(err, r) : 0;
}

static int write_all(int fd, struct iovec *iov, int n)
{
	while (n > 0) {
		ssize_t done = writev(fd, iov, n);

		if (done < 0 && errno == EINTR)
			continue;
		if (done < 0)
			return -errno;
		for (; n > 0 && (size_t)done >= iov->iov_len; iov++, n--)
			done -= (ssize_t)iov->iov_len;
		if (n > 0) {
			iov->iov_base = (char *)iov->iov_base + done;
			iov->iov_len -= (size_t)done;
		}
	}
	return 0;
}

int agent_send(struct agent *a, enum agent_record_kind kind, const void *head, size_t head_len,
	       const void *tail, size_t tail_len, struct cay_error *err)
{
	struct agent_record record = {.kind = kind, .len = (uint32_t)(head_len + tail_len)};
	struct iovec iov[] = {
		{&record, sizeof(record)},
		{(void *)(uintptr_t)head, head_len},
		{(void *)(uintptr_t)tail, tail_len},
	};
	int r = write_all(a->out, iov, ARRAY_LEN(iov));

	return r < 0 ? cay_fail(err, CAY_E_INTERNAL, -r, "answer") : 0;
}

static enum agent_type type_of(mode_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFREG:
		return AGENT_FILE;
	case S_IFDIR:
		return AGENT_DIR;
	case S_IFLNK:
		return AGENT_LINK;
	case S_IFIFO:
		return AGENT_FIFO;
	case S_IFSOCK:
		return AGENT_SOCKET;
	default:
		return AGENT_DEVICE;
	}
}

static int send_entry(struct agent *a, const struct stat *st, const char *path, const char *target,
		      unsigned glob, unsigned change, struct cay_error *err)
{
	char texts[2 * (AGENT_PATH_MAX + 1)];
	struct agent_entry e = {
		.type = type_of(st->st_mode),
		.mode = st->st_mode & 07777,
		.path_len = path ? (uint32_t)strlen(path) : 0,
		.link_len = target ? (uint32_t)strlen(target) : 0,
		.glob = glob,
		.change = change,
		.size = S_ISDIR(st->st_mode) || st->st_size < 0 ? 0 : (uint64_t)st->st_size,
		.mtime_ns = (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec,
	};

	if (path)
		memcpy(texts, path, e.path_len);
	if (target)
		memcpy(texts + e.path_len, target, e.link_len);
	return agent_send(a, RECORD_ENTRY, &e, sizeof(e), texts, e.path_len + e.link_len, err);
}

int agent_send_entry(struct agent *a, const struct stat *st, const char *path, const char *target,
		     unsigned glob, struct cay_error *err)
{
	return send_entry(a, st, path, target, glob, 0, err);
}

int agent_send_change(struct agent *a, const struct stat *st, const char *path, const char *target,
		      enum agent_change change, struct cay_error *err)
{
	return send_entry(a, st, path, target, 0, change, err);
}

int agent_send_stat(struct agent *a, int dir, const char *name, int flags, struct cay_error *err)
{
	char target[AGENT_PATH_MAX + 1] = "";
	struct stat st;
	ssize_t n = 0;

	if (fstatat(dir, name, &st, flags) < 0)
		return agent_fail(err, errno, "look at", a->path);
	if (S_ISLNK(st.st_mode))
		n = readlinkat(dir, name, target, sizeof(target) - 1);
	target[n < 0 ? 0 : n] = '\0';
	return agent_send_entry(a, &st, NULL, target, 0, err);
}

/* A limit that was reached is named, with its value where that can be known. */
static int fail_limit(struct cay_error *err, int e)
{
	struct rlimit limit;
	char size[32];

	if (e == ENOSPC || e == EDQUOT)
		return cay_hint(err,
				"the limit is that of the sandbox's disk (limits.disk, --disk)");
	if (e == EFBIG && getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
		return cay_hint(err, "the limit is limits.file_size: %s",
				format_size(limit.rlim_cur, size, sizeof(size)));
	if (e == EMFILE)
		return cay_hint(err, "the limit is limits.open_files");
	return -1;
}

int agent_fail(struct cay_error *err, int e, const char *what, const char *path)
{
	enum cay_code code = CAY_E_INTERNAL;

	switch (e) {
	case ENOENT:
	case ENOTDIR:
		code = CAY_E_NOT_FOUND;
		break;
	case EEXIST:
	case ENOTEMPTY:
	case EBUSY:
	case ETXTBSY:
		code = CAY_E_CONFLICT;
		break;
	case EACCES:
	case EPERM:
	case EROFS:
		code = CAY_E_POLICY;
		break;
	case ENOSPC:
	case EDQUOT:
	case EFBIG:
	case EMFILE:
		code = CAY_E_TOO_LARGE;
		break;
	case EINVAL:
	case EISDIR:
	case ELOOP:
	case ENAMETOOLONG:
	case ENXIO:
		code = CAY_E_INVALID;
		break;
	case EXDEV:
		code = CAY_E_UNSUPPORTED;
		break;
	default:
		break;
	}
	(void)cay_fail(err, code, e, "%s %s", what, path);
	return fail_limit(err, e);
}

bool agent_is_name(const char *name, size_t len)
{
	return len > 0 && !memchr(name, '/', len) && !(len == 1 && name[0] == '.') &&
	       !(len == 2 && name[0] == '.' && name[1] == '.');
}

int agent_make_dirs(struct agent *a, const char *path, unsigned mode, struct cay_error *err)
{
	char prefix[AGENT_PATH_MAX + 1];
	size_t len = strlen(path);

	memcpy(prefix, path, len + 1);
	for (size_t n = 1; n <= len; n++) {
		if (prefix[n] != '/' && prefix[n] != '\0')
			continue;
		prefix[n] = '\0';
		if (mkdirat(a->base, prefix, n == len ? mode : 0755) < 0 && errno != EEXIST)
			return agent_fail(err, errno, "make the directory", prefix);
		prefix[n] = path[n];
	}
	return 0;
}

int agent_open_parent(struct agent *a, char *path, bool make, int *ret_dir, const char **ret_name,
		      struct cay_error *err)
{
	const int flags = O_PATH | O_DIRECTORY | O_CLOEXEC;
	const char *parent = ".";
	char *slash, *name;
	int dir;

	for (size_t len = strlen(path); len > 1 && path[len - 1] == '/'; len--)
		path[len - 1] = '\0';
	slash = strrchr(path, '/');
	name = slash ? slash + 1 : path;
	if (!agent_is_name(name, strlen(name)))
		return cay_fail(err, CAY_E_INVALID, 0, "%s does not end in a name", path);
	if (slash)
		*slash = '\0';
	if (slash)
		parent = slash == path ? "/" : path;
	dir = openat(a->base, parent, flags);
	if (dir < 0 && errno == ENOENT && make) {
		if (agent_make_dirs(a, parent, 0755, err) < 0)
			return -1;
		dir = openat(a->base, parent, flags);
	}
	if (dir < 0)
		return agent_fail(err, errno, "open the directory", parent);
	if (slash)
		*slash = '/';
	*ret_dir = dir;
	*ret_name = name;
	return 0;
}

/* -1 and errno; EINVAL for what is no regular file. */
int agent_open_file(struct agent *a, int dir, const char *name, int flags, struct stat *ret)
{
	int fd;

	/* Asked first: to open a FIFO is to be noticed by who waits at its other end. */
	if (fstatat(dir, name, ret, flags & O_NOFOLLOW ? AT_SYMLINK_NOFOLLOW : 0) < 0)
		return -1;
	fd = S_ISREG(ret->st_mode) ? openat(dir, name, flags | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)
				   : -1;
	if (S_ISREG(ret->st_mode) && (fd < 0 || fstat(fd, ret) < 0)) {
		fd_closep(&fd);
		return -1;
	}
	if (fd >= 0 && S_ISREG(ret->st_mode) &&
	    !(ret->st_dev == a->self.st_dev && ret->st_ino == a->self.st_ino))
		return fd;
	fd_closep(&fd);
	errno = S_ISDIR(ret->st_mode) ? EISDIR : S_ISREG(ret->st_mode) ? EACCES : EINVAL;
	return -1;
}
