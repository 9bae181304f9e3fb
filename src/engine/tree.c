#include "engine/tree.h"

#include "base/attr.h"
#include "base/fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int tree_open(int dir_fd, const char *name)
{
	const int how = O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
	_cleanup_(fd_closep) int at = openat(dir_fd, name, O_PATH | how);
	char path[32];
	int fd;

	if (at < 0)
		return -errno;
	/* By what is open: whatever has that name by then, only this one is changed. */
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", at);
	(void)chmod(path, 0700);
	fd = openat(at, ".", O_RDONLY | how);
	return fd < 0 ? -errno : fd;
}

void tree_empty(int dir_fd)
{
	int copy = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = copy < 0 ? NULL : fdopendir(copy);

	if (!d) {
		fd_closep(&copy);
		return;
	}
	for (struct dirent *e; (e = readdir(d));) {
		int sub;

		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		if (unlinkat(dir_fd, e->d_name, 0) == 0)
			continue;
		sub = tree_open(dir_fd, e->d_name);
		if (sub >= 0) {
			tree_empty(sub);
			(void)close(sub);
			(void)unlinkat(dir_fd, e->d_name, AT_REMOVEDIR);
		}
	}
	(void)closedir(d);
}
