#include "engine/tree.h"

#include "base/fd.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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
		sub = openat(dir_fd, e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (sub >= 0) {
			(void)fchmod(sub, 0700);
			tree_empty(sub);
			(void)close(sub);
			(void)unlinkat(dir_fd, e->d_name, AT_REMOVEDIR);
		}
	}
	(void)closedir(d);
}
