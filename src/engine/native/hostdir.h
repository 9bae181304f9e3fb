/*
 * hostdir.h: host directories on their way to an island. Opened first, then
 * judged by what the fd says it is, then mounted by that fd: no path is looked
 * up twice.
 */
#pragma once

#include "core/error.h"
#include "policy/mounts.h"
#include "policy/plan.h"

#include <stdbool.h>
#include <sys/types.h>

struct hostdir {
	int fd;   /* O_PATH: what was judged */
	int tree; /* as root: a copy of it, or a mount of its own, idmapped, ready to be placed; -1
		   */
	bool directory;
	dev_t dev;
	ino_t ino;
	char *path; /* as the kernel names it */
};

#define HOSTDIR_NONE ((struct hostdir){.fd = -1, .tree = -1})

void hostdir_done(struct hostdir *h);

/*
 * Adds to every forbidden path the one it really leads to: it must not be
 * reached by its other name. Not so for allowed ones: who controls a symlink at
 * such a path could widen the list.
 */
int hostdir_resolve_rules(struct mount_rules *rules, struct cay_error *err);

/* Opens and judges what the mount names. A refusal is CAY_E_POLICY. */
int hostdir_open(const struct mount_rules *rules, const char *source, const struct plan_mount *m,
		 struct hostdir *ret, struct cay_error *err);

/*
 * As root: makes the copy whose owner appears as island_uid and island_gid (host
 * ids). A file system that can't be idmapped is CAY_E_NOT_ENFORCEABLE.
 */
int hostdir_idmap(struct hostdir *h, enum access access, bool shift, uid_t island_uid,
		  gid_t island_gid, struct cay_error *err);

/*
 * In the island's child: the tree to place. Without root it is cloned here, in
 * the child's own mount namespace, after a check that it is the same directory.
 */
int hostdir_tree(const struct hostdir *h, int access, int *ret_tree, struct cay_error *err);
