#include "engine/self.h"

#include "base/attr.h"
#include "base/fd.h"
#include "base/parse.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static uint64_t read_set(uint32_t low, uint32_t high)
{
	return (uint64_t)high << 32 | low;
}

int capabilities_read(struct capability_sets *ret)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2];

	*ret = (struct capability_sets){0};
	if (syscall(SYS_capget, &head, data) < 0)
		return -1;
	ret->effective = read_set(data[0].effective, data[1].effective);
	ret->permitted = read_set(data[0].permitted, data[1].permitted);
	ret->inheritable = read_set(data[0].inheritable, data[1].inheritable);
	for (int cap = 0; cap < 64; cap++) {
		int have = prctl(PR_CAPBSET_READ, cap);

		if (have < 0 && errno == EINVAL && cap > 0)
			break; /* past the last one the kernel knows */
		if (have < 0)
			return -1;
		ret->bounding |= (uint64_t)(have != 0) << cap;
	}
	/* The kernel keeps it within permitted and inheritable. */
	ret->ambient = ret->permitted & ret->inheritable;
	return 0;
}

int namespaces_read(uint64_t ret[NAMESPACES])
{
	static const char *const files[NAMESPACES] = {"user", "pid", "mnt",    "net",
						      "ipc",  "uts", "cgroup", "time"};
	_cleanup_(fd_closep) int dir =
		openat(AT_FDCWD, "/proc/self/ns", O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (dir < 0)
		return -errno;
	for (int n = 0; n < NAMESPACES; n++) {
		/* "net:[4026531840]". stat() says the same, but makes the kernel make an inode. */
		char link[48];
		ssize_t len = readlinkat(dir, files[n], link, sizeof(link) - 1);
		const char *number;

		ret[n] = 0; /* a kernel without time namespaces has no such file */
		if (len < 0 && errno == ENOENT)
			continue;
		if (len < 0)
			return -errno;
		link[len > 0 ? len - 1 : 0] = '\0'; /* without the last bracket */
		number = strchr(link, '[');
		if (!number || parse_u64(number + 1, 1, UINT64_MAX, &ret[n]) < 0)
			return -EINVAL;
	}
	return 0;
}

void signals_reset(void)
{
	static const unsigned long by_default[4]; /* the kernel's struct sigaction: SIG_DFL is 0 */

	for (int s = 1; s < NSIG; s++)
		(void)syscall(SYS_rt_sigaction, s, by_default, NULL, sizeof(unsigned long));
}

static const char *search_path(char *const *env)
{
	for (; *env; env++)
		if (strncmp(*env, "PATH=", 5) == 0)
			return *env + 5;
	return "/usr/bin:/bin";
}

static void exec_search(const char *path, char *const *argv, char *const *env)
{
	char file[4096];
	int denied = 0;

	if (strchr(argv[0], '/')) {
		(void)execve(argv[0], argv, env);
		return;
	}
	while (path && *path) {
		size_t n = strcspn(path, ":");

		(void)snprintf(file, sizeof(file), "%.*s/%s", (int)n, path, argv[0]);
		(void)execve(file, argv, env);
		if (errno == EACCES)
			denied = 1;
		else if (errno != ENOENT && errno != ENOTDIR)
			return;
		path += n + (path[n] == ':');
	}
	errno = denied ? EACCES : ENOENT;
}

int execute_search(char *const *argv, char *const *env)
{
	exec_search(search_path(env), argv, env);
	return -1;
}
