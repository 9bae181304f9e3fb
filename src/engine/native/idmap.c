#include "engine/native/idmap.h"

#include "base/attr.h"
#include "base/fd.h"
#include "engine/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static int write_map(pid_t pid, const char *file, uint32_t inside, uint32_t outside, uint32_t count)
{
	char path[64], map[64];

	(void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
	(void)snprintf(map, sizeof(map), "%u %u %u", inside, outside, count);
	return fd_write_file_at(AT_FDCWD, path, map);
}

/* A user namespace that maps them so, held by nobody but its fd. */
static int make_userns(const struct id_shift *s)
{
	struct clone_args args = {.flags = CLONE_NEWUSER, .exit_signal = SIGCHLD};
	char path[64];
	int gate[2], fd = -1, r;
	pid_t pid;

	if (pipe2(gate, O_CLOEXEC) < 0)
		return -errno;
	pid = (pid_t)sys_clone3(&args);
	if (pid == 0) {
		char c;

		(void)close(gate[1]);
		_exit((int)read(gate[0], &c, 1)); /* until the parent has its fd */
	}
	r = pid < 0 ? -errno : write_map(pid, "uid_map", s->disk_uid, s->uid, s->count);
	if (r == 0)
		r = write_map(pid, "gid_map", s->disk_gid, s->gid, s->count);
	if (r == 0) {
		(void)snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		r = fd < 0 ? -errno : 0;
	}
	(void)close(gate[0]);
	(void)close(gate[1]);
	if (pid > 0)
		(void)waitpid(pid, NULL, 0);
	return r < 0 ? r : fd;
}

int idmap_mount(int tree, uint64_t attrs, const struct id_shift *shift)
{
	_cleanup_(fd_closep) int userns = -1;
	struct mount_attr attr = {.attr_set = attrs};

	if (shift) {
		userns = make_userns(shift);
		if (userns < 0)
			return userns;
		attr.attr_set |= MOUNT_ATTR_IDMAP;
		attr.userns_fd = (unsigned)userns;
	}
	return sys_mount_setattr(tree, AT_RECURSIVE, &attr) < 0 ? -errno : 0;
}
