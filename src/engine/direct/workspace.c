#include "engine/direct/workspace.h"

#include "base/attr.h"
#include "base/fd.h"
#include "base/owner.h"
#include "engine/tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PREFIX "cay-direct-"

static const char *tmp_dir(void)
{
	const char *tmp = secure_getenv("TMPDIR");

	return tmp && tmp[0] == '/' && strlen(tmp) < 200 ? tmp : "/tmp";
}

void direct_workspace_name(char *path, size_t size)
{
	(void)snprintf(path, size, "%s/" PREFIX "%d-XXXXXX", tmp_dir(), (int)getpid());
}

static bool is_stale(int tmp, const char *name)
{
	struct stat st;

	return owner_is_gone(name, PREFIX) && fstatat(tmp, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       st.st_uid == geteuid() && S_ISDIR(st.st_mode);
}

int direct_sweep(void)
{
	DIR *d = opendir(tmp_dir());
	int n = 0;

	if (!d)
		return 0;
	for (struct dirent *e; (e = readdir(d));) {
		_cleanup_(fd_closep) int sub = -1;

		if (!is_stale(dirfd(d), e->d_name))
			continue;
		sub = openat(dirfd(d), e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (sub >= 0)
			tree_empty(sub);
		n += unlinkat(dirfd(d), e->d_name, AT_REMOVEDIR) == 0;
	}
	(void)closedir(d);
	return n;
}
