#include "engine/tree.h"

#include "base/attr.h"
#include "base/clock.h"
#include "base/fd.h"
#include "core/limits.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define ROUNDS_MAX 100000 /* of TREE_DEPTH_MAX levels each: more than a disk has inodes */

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

/*
 * A tree may be deeper than there are fds, and than a stack bears: what lies too deep is
 * moved up into the top that is being emptied, and met there in the next round.
 */
struct emptying {
	int top;
	bool moved;
};

static void move_up(struct emptying *t, int dir, const char *name)
{
	uint64_t random = 0;
	char temp[32];

	/* Where there is none yet the name is taken at worst, and it stays for another time. */
	if (getrandom(&random, sizeof(random), GRND_NONBLOCK) < 0)
		random = clock_now_ns();
	(void)snprintf(temp, sizeof(temp), ".cay-%016llx", (unsigned long long)random);
	if (renameat(dir, name, t->top, temp) == 0)
		t->moved = true;
}

static void empty_dir(struct emptying *t, int dir, unsigned depth);

static void remove_entry(struct emptying *t, int dir, const char *name, unsigned depth)
{
	_cleanup_(fd_closep) int sub = -1;

	if (unlinkat(dir, name, 0) == 0)
		return;
	sub = tree_open(dir, name);
	if (sub >= 0 && depth >= TREE_DEPTH_MAX) {
		move_up(t, dir, name);
		return;
	}
	if (sub >= 0)
		empty_dir(t, take_fd(&sub), depth + 1);
	(void)unlinkat(dir, name, AT_REMOVEDIR);
}

/* Takes the fd over. */
static void empty_dir(struct emptying *t, int dir, unsigned depth)
{
	DIR *d = fd_opendir(dir);

	if (!d)
		return;
	for (struct dirent *e; (e = readdir(d));)
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			remove_entry(t, dirfd(d), e->d_name, depth);
	(void)closedir(d);
}

void tree_empty(int dir_fd)
{
	struct emptying t = {.top = dir_fd, .moved = true};

	/* Whoever still writes there must not keep us for ever. */
	for (unsigned round = 0; t.moved && round < ROUNDS_MAX; round++) {
		int again = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		t.moved = false;
		if (again >= 0)
			empty_dir(&t, again, 1);
	}
}
