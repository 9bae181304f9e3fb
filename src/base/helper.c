#include "base/helper.h"

#include "base/attr.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Root's or our own, and nobody else may write to it: cay may have been copied to /tmp. */
static bool is_trusted(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
	       (st.st_uid == 0 || st.st_uid == geteuid()) &&
	       (st.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

int helper_open(const char *name)
{
	static const char *const places[] = {"", "../libexec/cay/"};
	char own[PATH_MAX], path[PATH_MAX + 64];
	ssize_t n = readlink("/proc/self/exe", own, sizeof(own) - 1);
	char *slash;

	if (n < 0)
		return -errno;
	own[n] = '\0';
	slash = strrchr(own, '/');
	if (!slash)
		return -ENOENT; /* a deleted file in another mount namespace, or the like */
	*slash = '\0';
	for (size_t i = 0; i < ARRAY_LEN(places); i++) {
		int fd;

		(void)snprintf(path, sizeof(path), "%s/%s%s", own, places[i], name);
		fd = open(path, O_PATH | O_CLOEXEC);
		if (fd >= 0 && is_trusted(fd))
			return fd;
		fd_closep(&fd);
	}
	return -ENOENT;
}
