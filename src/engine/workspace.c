#include "engine/workspace.h"

#include "base/attr.h"
#include "base/fd.h"
#include "base/leftover.h"
#include "engine/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <unistd.h>

#define PREFIX "cay-direct-"

static const char *const parts[] = {"workspace", "build"};

static const char *tmp_dir(void)
{
	const char *tmp = secure_getenv("TMPDIR");

	return tmp && tmp[0] == '/' && strlen(tmp) < 200 ? tmp : "/tmp";
}

/* Nobody but us can put anything into top: what is made there is what is opened. */
static int make_part(int top, const char *name, uid_t uid, gid_t gid)
{
	_cleanup_(fd_closep) int fd = -1;

	if (mkdirat(top, name, 0700) < 0)
		return -errno;
	fd = openat(top, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || (uid != geteuid() && fchown(fd, uid, gid) < 0))
		return -errno;
	return 0;
}

int workspace_make(struct workspace *w, uid_t uid, gid_t gid, bool build)
{
	_cleanup_(fd_closep) int top = -1;
	int r;

	*w = (struct workspace){0};
	(void)snprintf(w->top, sizeof(w->top), "%s/" PREFIX "%d-XXXXXX", tmp_dir(), (int)getpid());
	if (!mkdtemp(w->top)) {
		r = -errno;
		w->top[0] = '\0';
		return r;
	}
	top = open(w->top, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	/* Its user goes through it, and sees nothing else there. */
	if (top < 0 || (uid != geteuid() && fchmod(top, 0711) < 0))
		return -errno;
	r = make_part(top, parts[0], uid, gid);
	if (r == 0 && build)
		r = make_part(top, parts[1], uid, gid);
	(void)snprintf(w->home, sizeof(w->home), "%s/%s", w->top, parts[0]);
	if (build)
		(void)snprintf(w->build, sizeof(w->build), "%s/%s", w->top, parts[1]);
	return r;
}

/*
 * With the owner's rights and no more: the owner's other processes may be moving things
 * about in there at the same time.
 */
static void empty_part(int fd)
{
	uid_t ours = geteuid();
	gid_t group = getegid();
	struct stat st;

	if (fstat(fd, &st) < 0)
		return;
	if (ours == 0) {
		(void)setfsgid(st.st_gid);
		(void)setfsuid(st.st_uid);
	}
	tree_empty(fd);
	if (ours == 0) {
		(void)setfsuid(ours);
		(void)setfsgid(group);
	}
}

static int remove_top(int tmp, const char *name)
{
	_cleanup_(fd_closep) int top =
		openat(tmp, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	for (size_t n = 0; top >= 0 && n < ARRAY_LEN(parts); n++) {
		_cleanup_(fd_closep) int part = tree_open(top, parts[n]);

		if (part >= 0)
			empty_part(part);
		(void)unlinkat(top, parts[n], AT_REMOVEDIR);
	}
	return unlinkat(tmp, name, AT_REMOVEDIR);
}

void workspace_remove(struct workspace *w)
{
	if (w->top[0])
		(void)remove_top(AT_FDCWD, w->top);
	w->top[0] = '\0';
}

static bool is_stale(int tmp, const char *name)
{
	struct stat st;

	return leftover_is_orphan(name, PREFIX) &&
	       fstatat(tmp, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_uid == geteuid() &&
	       S_ISDIR(st.st_mode);
}

int workspace_sweep(void)
{
	DIR *d = opendir(tmp_dir());
	int n = 0;

	if (!d)
		return 0;
	for (struct dirent *e; (e = readdir(d));)
		if (is_stale(dirfd(d), e->d_name))
			n += remove_top(dirfd(d), e->d_name) == 0;
	(void)closedir(d);
	return n;
}
