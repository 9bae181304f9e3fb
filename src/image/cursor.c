#include "image/cursor.h"

#include "base/attr.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void cursor_init(struct cursor *c, int top, bool make)
{
	c->top = top;
	c->make = make;
	c->depth = 0;
	c->made = 0;
}

/* Where it made something, the directory's time is again what its own entry said. */
static void leave_to(struct cursor *c, size_t depth)
{
	while (c->depth > depth) {
		struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}};

		c->depth--;
		times[1] = c->at[c->depth].mtime;
		if (c->make)
			(void)futimens(c->at[c->depth].fd, times);
		fd_closep(&c->at[c->depth].fd);
	}
}

void cursor_leave(struct cursor *c)
{
	leave_to(c, 0);
}

int cursor_plain(const char *raw, char plain[PATH_MAX])
{
	size_t at = 0, len;

	for (const char *p = raw; *p; p += len + (p[len] == '/')) {
		len = strcspn(p, "/");
		if (len == 0 || (len == 1 && p[0] == '.'))
			continue;
		if (len > NAME_MAX || (len == 2 && memcmp(p, "..", 2) == 0))
			return -EINVAL;
		if (at + len + 2 > PATH_MAX)
			return -ENAMETOOLONG;
		if (at > 0)
			plain[at++] = '/';
		memcpy(plain + at, p, len);
		at += len;
	}
	plain[at] = '\0';
	return 0;
}

int cursor_absolute(const char *raw, char **ret)
{
	char plain[PATH_MAX];
	int r = cursor_plain(raw, plain);

	if (r < 0)
		return r;
	if (asprintf(ret, "/%s", plain) < 0) {
		*ret = NULL;
		return -ENOMEM;
	}
	return 0;
}

static int open_dir(int parent, const char *name)
{
	int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return errno == ELOOP ? -ENOTDIR : -errno;
	return fd;
}

/* One that the archive has not named (yet), and of a time that says so. */
static int make_dir(int parent, const char *name)
{
	static const struct timespec never[2];
	_cleanup_(fd_closep) int mark = -1;
	int fd;

	if (mkdirat(parent, name, 0755) < 0)
		return -errno;
	fd = open_dir(parent, name);
	if (fd < 0)
		return fd;
	mark = openat(fd, LAYER_IMPLIED, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (mark < 0 || futimens(fd, never) < 0) {
		fd_closep(&fd);
		return -errno;
	}
	return fd;
}

static int enter(struct cursor *c, const char *name, size_t len)
{
	int parent = c->depth > 0 ? c->at[c->depth - 1].fd : c->top;
	struct stat st;
	char *own;
	int fd;

	if (c->depth == LAYER_DEPTH_MAX)
		return -ENAMETOOLONG;
	own = c->at[c->depth].name;
	memcpy(own, name, len);
	own[len] = '\0';
	if (strncmp(own, LAYER_WHITEOUT, sizeof(LAYER_WHITEOUT) - 1) == 0)
		return -EINVAL;
	fd = open_dir(parent, own);
	if (fd == -ENOENT && c->make) {
		fd = make_dir(parent, own);
		c->made++;
	}
	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0) {
		int r = -errno;

		fd_closep(&fd);
		return r;
	}
	c->at[c->depth].fd = fd;
	c->at[c->depth++].mtime = st.st_mtim;
	return 0;
}

int cursor_go(struct cursor *c, const char *path, int *ret_dir, const char **ret_leaf)
{
	size_t depth = 0;
	const char *slash;

	for (; (slash = strchr(path, '/')); path = slash + 1, depth++) {
		size_t len = (size_t)(slash - path);
		int r;

		if (depth < c->depth && strncmp(c->at[depth].name, path, len) == 0 &&
		    c->at[depth].name[len] == '\0')
			continue;
		leave_to(c, depth);
		r = enter(c, path, len);
		if (r < 0)
			return r;
	}
	leave_to(c, depth);
	*ret_dir = depth > 0 ? c->at[depth - 1].fd : c->top;
	*ret_leaf = path;
	return 0;
}
