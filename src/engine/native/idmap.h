/*
 * idmap.h: files whose owners on disk appear as others on an island.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

/* count ids from disk_uid (disk_gid) on appear as those from uid (gid) on: host ids, all. */
struct id_shift {
	uid_t disk_uid, uid;
	gid_t disk_gid, gid;
	uint32_t count;
};

/* What shifts them so: an fd or -errno. Good for any number of mounts. */
int idmap_open(const struct id_shift *s);

/*
 * Sets attributes on a mount that is not attached anywhere, and on those below it, and shifts
 * its owners, unless by is -1. 0 or -errno; file systems that can't say -EINVAL.
 */
int idmap_mount(int tree, uint64_t attrs, int by);
