#include "engine/native/layout.h"

#include "base/attr.h"
#include "base/fd.h"
#include "core/limit.h"
#include "engine/native/image_root.h"
#include "engine/native/island.h"
#include "engine/native/machine.h"
#include "engine/native/mount.h"
#include "engine/overlay.h"
#include "engine/native/rootfs.h"
#include "engine/native/waiter.h"
#include "engine/sys.h"
#include "policy/mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int fail(struct cay_error *err, int r, const char *what)
{
	return cay_fail(err, CAY_E_ENGINE, -r, "%s", what);
}

/* A directory of the old root to mount the new one on; it vanishes with the old root. */
#define ROOT_BASE "/tmp"

int layout_trees(struct island *i, struct cay_error *err)
{
	const struct plan *p = i->plan;

	/* One that was borne has its zygote's. */
	for (uint32_t n = 0; n < p->n_mounts && !i->interpreter; n++)
		if (hostdir_tree(&i->hostdirs[n], p->mounts[n].access, &i->trees[n], err) < 0)
			return -1;
	return 0;
}

int layout_root(struct island *i, struct cay_error *err)
{
	return plan_image(i->plan) ? image_root_lay(i, ROOT_BASE, err)
				   : rootfs_build(ROOT_BASE, &i->root_fd, err);
}

/* In a template the root is simply "/". */
static int root_of(struct island *i)
{
	if (i->root_fd < 0)
		i->root_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	return i->root_fd;
}

/* On the host's image the root is a tmpfs with nothing but our own in it; on others it is not. */
static int place_at(struct island *i, int mount_fd, const char *target)
{
	return plan_image(i->plan) ? mount_place(mount_fd, root_of(i), target)
				   : mount_place_own(mount_fd, root_of(i), target);
}

/* Places a mount just made, or passes on why it could not be. */
static int place(struct island *i, int mount_fd, const char *target)
{
	_cleanup_(fd_closep) int fd = mount_fd;

	return fd < 0 ? fd : place_at(i, fd, target);
}

int layout_proc(struct island *i, struct cay_error *err)
{
	int r = place(
		i,
		mount_new("proc", NULL, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC),
		"proc");

	if (r == -EPERM) {
		(void)fail(err, r, "mount a /proc of its own");
		return cay_hint(err,
				"parts of this machine's /proc are covered, as in containers: "
				"the kernel then allows no fresh one; `cay doctor` says what to "
				"change");
	}
	return r < 0 ? fail(err, r, "mount a /proc of its own") : 0;
}

/*
 * What of /proc tells about the machine, or reaches it, and is not shut already
 * by belonging to a root that the island does not have. Locks of open files are
 * shown to everybody: those of ids.c tell which neighbours there are.
 */
static const char *const masked_files[] = {
	"proc/kcore", "proc/keys", "proc/kallsyms", "proc/timer_list", "proc/locks",
};
static const char *const masked_dirs[] = {"proc/acpi", "proc/scsi", "proc/asound", "proc/bus"};

/*
 * Covers each with a copy of cover; those the kernel does not have are skipped. The
 * last is one that all have: to let go of a copy that is nowhere attached costs 0.1 ms.
 */
static int mask(struct island *i, const char *cover, const char *const *paths, size_t n)
{
	_cleanup_(fd_closep) int copy = -1;
	int r = 0;

	for (size_t k = 0; k < n && r == 0; k++) {
		if (copy < 0)
			copy = mount_clone(i->root_fd, cover);
		r = copy < 0 ? copy : mount_place_own(copy, i->root_fd, paths[k]);
		if (r == 0)
			fd_closep(&copy);
		/* A mount can fail so for other reasons: what is there must be covered. */
		if (r == -ENOENT && copy >= 0 && faccessat(i->root_fd, paths[k], F_OK, 0) < 0 &&
		    errno == ENOENT)
			r = 0; /* the copy is the next one's */
	}
	return r;
}

/*
 * Numbers that islands and the user who started them share on the host: what an
 * island may take of them, in its own user namespace. Before /proc/sys is shut.
 */
static int limit_counters(struct island *i)
{
	static const char *const counters[][2] = {
		{"proc/sys/user/max_inotify_instances", "8"},
		{"proc/sys/user/max_inotify_watches", "4096"},
	};

	for (size_t n = 0; n < ARRAY_LEN(counters); n++) {
		int r = fd_write_file_at(i->root_fd, counters[n][0], counters[n][1]);

		if (r < 0 && r != -ENOENT)
			return r;
	}
	return 0;
}

int layout_proc_masks(struct island *i, struct cay_error *err)
{
	_cleanup_(fd_closep) int sys = -1;
	int r;

	if (root_of(i) < 0)
		return fail(err, -errno, "open the root");
	r = limit_counters(i);
	if (r < 0)
		return fail(err, r, "limit inotify");
	r = mask(i, "dev/null", masked_files, ARRAY_LEN(masked_files));
	if (r == 0)
		r = mask(i, "dev/shm", masked_dirs, ARRAY_LEN(masked_dirs));
	if (r < 0)
		return fail(err, r, "mask parts of /proc");
	sys = mount_clone(i->root_fd, "proc/sys");
	r = sys < 0 ? sys : mount_set_attrs(sys, MOUNT_ATTR_RDONLY, true);
	if (r == 0)
		r = mount_place_own(sys, i->root_fd, "proc/sys");
	return r < 0 ? fail(err, r, "make /proc/sys read-only") : 0;
}

/* The island's one writable file system; its directories appear where programs look for them. */
static const struct {
	const char *name, *target;
	mode_t mode;
} scratch_dirs[] = {
	{SCRATCH_TMP, "tmp", 01777},
	{SCRATCH_SHM, "dev/shm", 01777},
	{SCRATCH_WORKSPACE, "workspace", 0755},
};

int layout_make_scratch(const struct plan *p)
{
	uint64_t inodes = limit_inodes(p->limits.disk_bytes);
	char size[32], count[32];
	const struct mount_option options[] = {
		{"size", size}, {"nr_inodes", count}, {"mode", "0755"}, {0}};

	(void)snprintf(size, sizeof(size), "%llu", (unsigned long long)p->limits.disk_bytes);
	(void)snprintf(count, sizeof(count), "%llu", (unsigned long long)inodes);
	return mount_new("tmpfs", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
}

static int make_scratch_dirs(const struct island *i)
{
	for (size_t n = 0; n < ARRAY_LEN(scratch_dirs); n++) {
		const char *name = scratch_dirs[n].name;

		/* Our umask is 0: the mode is as it stands. */
		if (mkdirat(i->scratch_fd, name, scratch_dirs[n].mode) < 0)
			return -errno;
		if (i->many_ids && fchownat(i->scratch_fd, name, i->plan->uid, i->plan->gid, 0) < 0)
			return -errno;
	}
	return 0;
}

/*
 * The whole is attached at /tmp, where its own "tmp" then covers it, and stays
 * there: letting go of a mount that is nowhere attached costs 0.1 ms. (Below a
 * layer it is attached already, where the layer is, and goes with the old root:
 * image_root.c. Where it must be reached later, it is attached here as well.)
 * /workspace comes last in the table: a host directory may go there instead.
 */
static int attach_scratch(struct island *i)
{
	int again;

	if (!i->layered)
		return place_at(i, i->scratch_fd, "tmp");
	if (!plan_overlay(i->plan))
		return 0;
	again = mount_clone_part(i->scratch_fd, ".");
	if (again < 0)
		return again;
	(void)close(i->scratch_fd);
	i->scratch_fd = again;
	return place_at(i, again, "tmp");
}

static int place_scratch_dirs(struct island *i)
{
	size_t len = ARRAY_LEN(scratch_dirs) - !i->plan->scratch_workspace;
	int r = attach_scratch(i);

	for (size_t n = len; n-- > 0 && r == 0;)
		r = place(i, mount_clone_part(i->scratch_fd, scratch_dirs[n].name),
			  scratch_dirs[n].target);
	return r;
}

int layout_scratch(struct island *i, struct cay_error *err)
{
	int r;

	if (!i->layered)
		i->scratch_fd = layout_make_scratch(i->plan);
	if (i->scratch_fd < 0)
		return fail(err, i->scratch_fd, "make the writable file system");
	r = make_scratch_dirs(i);
	if (r == 0)
		r = place_scratch_dirs(i);
	return r < 0 ? fail(err, r, "make /tmp and /workspace") : 0;
}

/*
 * /sys of the island's own. What is in it depends on the limits, so it is not
 * part of the image's root, which a template shares; on the scratch it is not
 * writable all the same.
 */
static int make_sys(struct island *i)
{
	_cleanup_(fd_closep) int sys = -1;
	int r;

	if (mkdirat(i->scratch_fd, SCRATCH_SYS, 0755) < 0)
		return -errno;
	sys = openat(i->scratch_fd, SCRATCH_SYS, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (sys < 0)
		return -errno;
	r = machine_describe(sys, i->plan, &i->provision.ticket);
	return r < 0 || !i->waiter ? r : waiter_place(i->waiter, sys);
}

static int place_sys(struct island *i)
{
	_cleanup_(fd_closep) int sys = mount_clone_part(i->scratch_fd, SCRATCH_SYS);
	int r = sys < 0 ? sys : mount_set_attrs(sys, MOUNT_ATTR_RDONLY, false);

	if (r == 0)
		r = place_at(i, sys, "sys");
	if (r < 0 || !i->provision.ticket.v2[CONTROLLER_MEMORY])
		return r;
	/* The island's own cgroup, as its namespace shows it: where java looks for its limits. */
	return place(i,
		     mount_new("cgroup2", NULL,
			       MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
				       MOUNT_ATTR_NOEXEC),
		     "sys/" MACHINE_CGROUP);
}

int layout_sys(struct island *i, struct cay_error *err)
{
	int r = make_sys(i);

	if (r == 0)
		r = place_sys(i);
	return r < 0 ? fail(err, r, "make /sys") : 0;
}

int layout_devpts(struct island *i, struct cay_error *err)
{
	static const struct mount_option options[] = {
		{"newinstance", NULL}, {"ptmxmode", "0666"}, {"mode", "0620"}, {"max", "64"}, {0}};
	int r = place(i, mount_new("devpts", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC),
		      "dev/pts");

	return r < 0 ? fail(err, r, "mount terminals of its own") : 0;
}

/* Where a mount goes: on the island /var/tmp is a link to /tmp. */
const char *layout_target(const struct plan *p, uint32_t n)
{
	const char *target = plan_str(p, p->mounts[n].target);

	return path_is_within(target, "/var/tmp") ? target + strlen("/var") : target;
}

/* A runtime's directory can lie in the host's /tmp: its place is in the scratch then. */
bool layout_in_scratch(const struct plan *p, uint32_t n)
{
	return path_is_within(layout_target(p, n), "/tmp");
}

static int make_mount_points(struct island *i, bool in_scratch, struct cay_error *err)
{
	const struct plan *p = i->plan;

	for (uint32_t n = 0; n < p->n_mounts; n++) {
		const char *target = layout_target(p, n);
		int r = 0;

		if (layout_in_scratch(p, n) == in_scratch)
			r = mount_point_make(root_of(i), target, i->hostdirs[n].directory);
		if (r < 0)
			return cay_fail(err, CAY_E_ENGINE, -r, "make the mount point %s", target);
	}
	return 0;
}

int layout_mount_points(struct island *i, struct cay_error *err)
{
	return make_mount_points(i, false, err);
}

int layout_mounts(struct island *i, struct cay_error *err)
{
	const struct plan *p = i->plan;

	if (i->interpreter)
		return 0;
	if (make_mount_points(i, true, err) < 0)
		return -1;
	for (uint32_t n = 0; n < p->n_mounts; n++) {
		const char *target = layout_target(p, n);
		_cleanup_(fd_closep) int tree = i->trees[n];
		int r;

		if (p->mounts[n].access == ACCESS_OVERLAY && overlay_lay(i, &tree, err) < 0)
			return -1;
		r = mount_place(tree, root_of(i), target);
		if (r < 0)
			return cay_fail(err, CAY_E_ENGINE, -r, "mount %s", target);
	}
	return 0;
}

int layout_seal(struct island *i, struct cay_error *err)
{
	return rootfs_seal(i->root_fd, i->plan->writable, err);
}

int layout_devices(struct island *i, struct cay_error *err)
{
	return i->in_template ? rootfs_take_dev(i->root_fd, err) : rootfs_devices(i->root_fd, err);
}

int layout_enter(struct island *i, struct cay_error *err)
{
	return i->in_template && !plan_image(i->plan) ? 0 : rootfs_enter(i->root_fd, err);
}
