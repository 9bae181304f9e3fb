/*
 * Images. With a journal, though the daemon's death needs none (the kernel unmounts in
 * order): a machine that loses its power leaves a file system behind that is whole,
 * and nobody has to repair trees that hostile code made. It costs 4 MiB, which are on
 * top of the limit.
 */
#include "engine/native/kept.h"

#include "base/attr.h"
#include "base/fd.h"
#include "base/parse.h"
#include "core/limit.h"
#include "engine/native/mount.h"
#include "engine/sys.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <linux/securebits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define LOOP_CONTROL "/dev/loop-control"
#define LOOP_TRIES   64 /* others take loop devices, too */

#define BLOCK         4096ull
#define INODE_BYTES   256ull
#define JOURNAL_MIB   4ull
#define RESERVED_MAX  (4096 * BLOCK) /* ext4 keeps 2 % back for itself, up to this */
#define RESERVED_PART 50

#define MKFS_FD      3
#define MKFS_SECONDS 20 /* of CPU */

static const char *const mkfs_paths[] = {"/usr/sbin/mkfs.ext4", "/sbin/mkfs.ext4"};

static const char *find_mkfs(void)
{
	for (size_t n = 0; n < ARRAY_LEN(mkfs_paths); n++)
		if (access(mkfs_paths[n], X_OK) == 0)
			return mkfs_paths[n];
	return NULL;
}

const char *kept_no_image(bool many_ids)
{
	_cleanup_(fd_closep) int control = -1;

	if (!many_ids)
		return "only root can mount an image of its own for it";
	control = open(LOOP_CONTROL, O_RDWR | O_CLOEXEC);
	if (control < 0)
		return "there are no loop devices here: " LOOP_CONTROL " can't be opened";
	return find_mkfs() ? NULL : "mkfs.ext4 is missing: install e2fsprogs";
}

uint64_t kept_image_bytes(uint64_t disk_bytes)
{
	uint64_t bytes = (disk_bytes + limit_inodes(disk_bytes) * INODE_BYTES) & ~(BLOCK - 1);
	uint64_t reserved = bytes / RESERVED_PART & ~(BLOCK - 1);

	bytes += JOURNAL_MIB << 20;
	return bytes + (reserved < RESERVED_MAX ? reserved : RESERVED_MAX);
}

/* What all images together may still grow by. */
static uint64_t promised(int dir)
{
	DIR *d = fd_opendir_again(dir);
	uint64_t sum = 0;

	if (!d)
		return 0;
	for (struct dirent *e; (e = readdir(d));) {
		struct stat st;

		if (fstatat(dir, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
		    st.st_blocks * 512 < st.st_size)
			sum += (uint64_t)(st.st_size - st.st_blocks * 512);
	}
	(void)closedir(d);
	return sum;
}

int kept_check_room(int dir, uint64_t bytes, struct cay_error *err)
{
	struct statvfs v;
	uint64_t room, taken = promised(dir);
	char want[32], have[32];

	if (fstatvfs(dir, &v) < 0)
		return cay_fail(err, CAY_E_ENGINE, errno, "look at the disk");
	room = (uint64_t)v.f_bavail * v.f_frsize;
	room = room > taken ? room - taken : 0;
	if (room >= bytes)
		return 0;
	(void)cay_fail(err, CAY_E_AT_CAPACITY, 0,
		       "no room for a workspace of %s: %s of the disk are not promised to others",
		       format_size(bytes, want, sizeof(want)),
		       format_size(room, have, sizeof(have)));
	return cay_hint(err, "ask for a smaller limit disk, or delete persistent sandboxes");
}

static int limit(int resource, uint64_t value)
{
	struct rlimit r = {.rlim_cur = value, .rlim_max = value};

	return setrlimit(resource, &r);
}

/* Root by its number, for the file is root's, but with no capability at all. */
_noreturn_ static void be_mkfs(int image, const char *program, uint64_t bytes, const char *inodes)
{
	char owner[128], blocks[32], journal[32], path[32];
	char *argv[] = {(char *)"mkfs.ext4",
			(char *)"-q",
			(char *)"-F",
			(char *)"-m",
			(char *)"0",
			(char *)"-b",
			(char *)"4096",
			(char *)"-I",
			(char *)"256",
			(char *)"-N",
			(char *)(uintptr_t)inodes,
			(char *)"-O",
			(char *)"has_journal,^resize_inode",
			(char *)"-J",
			journal,
			(char *)"-E",
			owner,
			path,
			blocks,
			NULL};
	char *env[] = {NULL};
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	(void)snprintf(owner, sizeof(owner),
		       "root_owner=%u:%u,lazy_itable_init=1,lazy_journal_init=1,nodiscard", KEPT_ID,
		       KEPT_ID);
	(void)snprintf(blocks, sizeof(blocks), "%llu", (unsigned long long)(bytes / BLOCK));
	(void)snprintf(journal, sizeof(journal), "size=%llu", JOURNAL_MIB);
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", MKFS_FD);
	image = fcntl(image, F_DUPFD_CLOEXEC, MKFS_FD + 1);
	if (null < 0 || image < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 ||
	    dup2(image, MKFS_FD) < 0 || sys_close_range(MKFS_FD + 1, ~0u, 0) < 0 ||
	    prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || limit(RLIMIT_FSIZE, bytes) < 0 ||
	    limit(RLIMIT_CPU, MKFS_SECONDS) < 0 || limit(RLIMIT_CORE, 0) < 0 ||
	    prctl(PR_SET_SECUREBITS, SECBIT_NOROOT | SECBIT_NOROOT_LOCKED) < 0 ||
	    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		_exit(126);
	(void)execve(program, argv, env);
	_exit(127);
}

int kept_make_image(int dir, const char *name, uint64_t disk_bytes, pid_t *ret_pid,
		    struct cay_error *err)
{
	uint64_t bytes = kept_image_bytes(disk_bytes);
	const char *program = find_mkfs();
	_cleanup_(fd_closep) int image = -1;
	char file[ID_SIZE + 8], inodes[32];
	pid_t pid;

	if (!program)
		return cay_fail(err, CAY_E_ENGINE, ENOENT, "find mkfs.ext4");
	if (kept_check_room(dir, bytes, err) < 0)
		return -1;
	kept_drop_new(dir, name);
	(void)snprintf(file, sizeof(file), "%.*s.new", ID_SIZE, name);
	(void)snprintf(inodes, sizeof(inodes), "%llu",
		       (unsigned long long)limit_inodes(disk_bytes));
	image = openat(dir, file, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (image < 0 || ftruncate(image, (off_t)bytes) < 0)
		return cay_fail(err, CAY_E_ENGINE, errno, "make the workspace's image");
	pid = fork();
	if (pid == 0)
		be_mkfs(image, program, bytes, inodes);
	if (pid < 0)
		return cay_fail(err, CAY_E_ENGINE, errno, "start mkfs.ext4");
	*ret_pid = pid;
	return 0;
}

/* An fd of a loop device that has the image, and its path. It is free again with its last user. */
static int attach(int image, char path[32])
{
	_cleanup_(fd_closep) int control = open(LOOP_CONTROL, O_RDWR | O_CLOEXEC);
	struct loop_config config = {
		.fd = (unsigned)image,
		.block_size = BLOCK,
		/* Straight to the disk: what the file system caches is not cached twice. */
		.info.lo_flags = LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO,
	};
	int r = control < 0 ? -errno : -EBUSY;

	for (int tries = 0; control >= 0 && tries < LOOP_TRIES && r == -EBUSY; tries++) {
		_cleanup_(fd_closep) int loop = -1;
		int n = ioctl(control, LOOP_CTL_GET_FREE);

		if (n < 0)
			return -errno;
		(void)snprintf(path, 32, "/dev/loop%d", n);
		loop = open(path, O_RDWR | O_CLOEXEC);
		if (loop < 0)
			return -errno;
		if (ioctl(loop, LOOP_CONFIGURE, &config) == 0)
			return take_fd(&loop);
		r = -errno;
	}
	return r == -EBUSY ? -EAGAIN : r;
}

int kept_image_mount(int image)
{
	char path[32];
	const struct mount_option options[] = {
		{"source", path},
		{"errors", "remount-ro"},
		{"discard", NULL},
		/* The file's holes are zeros: no thread of the kernel's has to write them. */
		{"noinit_itable", NULL},
		{0}};
	_cleanup_(fd_closep) int loop = attach(image, path);

	return loop < 0 ? loop : mount_new("ext4", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
}
