#include "engine/native/idmap.h"

#include "base/fd.h"
#include "engine/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define WAITER_STACK (16 * 1024)

static int write_map(pid_t pid, const char *file, uint32_t inside, uint32_t outside, uint32_t count)
{
	char path[64], map[64];

	(void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
	(void)snprintf(map, sizeof(map), "%u %u %u", inside, outside, count);
	return fd_write_file_at(AT_FDCWD, path, map);
}

/* Until the parent has what it wants, or is gone. The memory is the parent's. */
static int wait_in_namespace(void *arg)
{
	const int *gate = arg;
	char c;

	(void)close(gate[1]);
	return read(gate[0], &c, 1) != 0;
}

static int open_mapped(pid_t pid, const struct id_shift *s)
{
	char path[64];
	int fd, r = write_map(pid, "uid_map", s->disk_uid, s->uid, s->count);

	if (r == 0)
		r = write_map(pid, "gid_map", s->disk_gid, s->gid, s->count);
	if (r < 0)
		return r;
	(void)snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/*
 * A user namespace that maps them so, held by nobody but its fd. There must be a process in it to
 * give it its maps; that one borrows our memory, as copying it would cost more than all the
 * rest, and no signal tells of its end.
 */
int idmap_open(const struct id_shift *s)
{
	static char stack[WAITER_STACK] __attribute__((aligned(16)));
	int gate[2], r;
	pid_t pid;

	if (pipe2(gate, O_CLOEXEC) < 0)
		return -errno;
	pid = clone(wait_in_namespace, stack + sizeof(stack), CLONE_NEWUSER | CLONE_VM, gate);
	r = pid < 0 ? -errno : open_mapped(pid, s);
	(void)close(gate[1]);
	while (pid > 0 && waitpid(pid, NULL, __WALL) < 0 && errno == EINTR)
		;
	(void)close(gate[0]);
	return r;
}

int idmap_mount(int tree, uint64_t attrs, int by)
{
	struct mount_attr attr = {.attr_set = attrs};

	if (by >= 0) {
		attr.attr_set |= MOUNT_ATTR_IDMAP;
		attr.userns_fd = (unsigned)by;
	}
	return sys_mount_setattr(tree, AT_RECURSIVE, &attr) < 0 ? -errno : 0;
}
