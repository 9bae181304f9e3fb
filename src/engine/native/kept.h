/*
 * kept.h: workspaces that outlive their islands, in one directory below the daemon's
 * state that nobody but the launcher's user may enter. Each goes by the name of its
 * sandbox, or by a name of its own (wsp_…), as their snapshots do:
 *
 *   sbx_….img    an ext4 file system in a sparse file: bytes and files are limited
 *   sbx_….new    the same while it is made or copied; left behind only by a killed launcher
 *   sbx_…        without root, or without loop devices: a plain directory, no limit
 *   sbx_….gone   that, on its way out
 *
 * An image is mounted by a loop device that clears itself, and the mount is an fd until
 * the island has it: nothing is ever attached to the host's tree. So when the island is
 * gone, however it went, mount and loop device are gone, too. The kernel alone writes to
 * an image after it was made: no user's bytes are ever taken for a file system.
 */
#pragma once

#include "core/error.h"
#include "core/id.h"
#include "engine/native/hostdir.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define KEPT_DIR "workspaces"

/* Who owns the files on disk, as root: an id that is nobody's. On the island it is its user's. */
#define KEPT_ID (0x70000000u - 2)

enum kept_kind { KEPT_NONE, KEPT_IMAGE, KEPT_PLAIN };

/*
 * The directory, made where there is none. The state directory may be another user's:
 * one that was put in its place is refused.
 */
int kept_open_dir(int state_dir, int *ret, struct cay_error *err);

/* What there is of that name. */
enum kept_kind kept_look(int dir, const char *name);

/* Why there can be no images here; NULL: there can. many_ids: as the launcher's. */
const char *kept_no_image(bool many_ids);

/* A plain directory of that name. */
int kept_make_plain(int dir, const char *name, bool many_ids, struct cay_error *err);

/*
 * Begins to make an image that holds that many bytes: *ret_pid is the caller's child,
 * and all is well when it exits with 0. CAY_E_AT_CAPACITY: the disk could not hold it,
 * with what the others may still grow by.
 */
int kept_make_image(int dir, const char *name, uint64_t disk_bytes, pid_t *ret_pid,
		    struct cay_error *err);

/* Whatever kept_make_image() has begun of it. */
void kept_drop_new(int dir, const char *name);

/* The size of the image for so many bytes: with the file system's own. */
uint64_t kept_image_bytes(uint64_t disk_bytes);

/*
 * What an island mounts. CAY_E_CONFLICT with EBUSY: its last island still has it, for a
 * moment. Of an image there is a tree, ready but for its owner (hostdir_idmap).
 */
int kept_open(int dir, const char *name, struct hostdir *ret, enum kept_kind *ret_kind,
	      struct cay_error *err);

/*
 * For a copy of one image as another, which is replaced where it is there: both are locked
 * against being mounted, and the bytes are somebody else's to copy. CAY_E_CONFLICT with EBUSY:
 * one of them is mounted; CAY_E_CONFLICT: there is nothing to copy; CAY_E_UNSUPPORTED: it is a
 * plain directory.
 */
struct kept_copy {
	int from, to; /* to has no name that counts yet; -1 */
	int replaced; /* locked; -1: there is none */
};

#define KEPT_COPY_NONE ((struct kept_copy){.from = -1, .to = -1, .replaced = -1})

int kept_copy_begin(int dir, const char *from, const char *to, struct kept_copy *ret,
		    struct cay_error *err);
/* The bytes are there: it gets its name. */
int kept_copy_end(int dir, const char *to, struct cay_error *err);
/* Let go of the locks; what has no name stays for kept_drop_new(). */
void kept_copy_done(struct kept_copy *c);

/* CAY_E_AT_CAPACITY: the disk has no room for so many bytes beside what is promised. */
int kept_check_room(int dir, uint64_t bytes, struct cay_error *err);

/* Removes it; true: kept_empty_gone() has something to do. */
bool kept_remove(int dir, const char *name);

/* Removes all but these, and what was half made. *ret_gone as kept_remove(). How many. */
unsigned kept_sweep(int dir, const char (*keep)[ID_SIZE], size_t n, bool *ret_gone);

/* Takes time: for a process of its own. */
void kept_empty_gone(int dir);

/* For kept*.c alone: the mount of an open image, not attached. -errno. */
int kept_image_mount(int image);
