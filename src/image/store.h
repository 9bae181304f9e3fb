/*
 * store.h: the images there are, written: for cay-image alone. images.h reads.
 *
 *   lock                 flock: whoever gives or takes a name below, for that moment
 *   names/ records/      see images.h; configs/ID.json, manifests/HEX.json: as they came
 *   layers/DIFFID/       a layer's tree, whiteouts as plain files (layer.h)
 *   roots/ID/            the merged tree, of hard links into layers/; islands mount it, and hold
 *                        a shared flock on it as long as they live
 *   partial/HEX          downloads, whole or broken off, locked by who is at them; HEX.PID: of one
 *                        that did not wait for that any longer (gather.c)
 *   staging/NAME/        what is being made, locked by who makes it
 *
 * Everything gets its name whole, by a rename; a process that was killed leaves only partial/ and
 * staging/, and what nobody has locked there is removed by the next one that opens the store.
 * Several processes may use one store at once.
 */
#pragma once

#include "core/error.h"
#include "image/parts.h"

#include <stdbool.h>
#include <stdint.h>

struct progress;
struct store;

/* budget: what all of it may take on disk; 0: what is free. Makes the directory. */
int store_open(const char *dir, uint64_t budget_bytes, struct store **ret, struct cay_error *err);
void store_free(struct store *s);
void store_freep(struct store **s);

/* The directory, for those who write below partial/; the store's own. */
int store_fd(const struct store *s);

/* How many bytes may still be written, and how many files. */
int store_room(const struct store *s, uint64_t *ret_bytes, uint64_t *ret_inodes,
	       struct cay_error *err);

/* A layer that is there stays until the store is closed. */
bool store_has_layer(struct store *s, const char *diff_id);

/*
 * Unpacks one, unless it is there. CAY_E_INVALID: an archive that is refused, or whose digests
 * are others than were promised; CAY_E_TOO_LARGE: beyond the budget, or the disk. progress may
 * be NULL: it is told the digest (or the diff id) and how much of size was read.
 */
int store_add_layer(struct store *s, const struct image_layer *layer,
		    const struct progress *progress, struct cay_error *err);

/* All its layers are there. name (in full) may be NULL; ret_id is of the configuration. */
int store_add_image(struct store *s, const struct image_parts *parts, const char *name,
		    char ret_id[IMAGE_ID_SIZE], struct cay_error *err);

/* Of its layers, unpacked; 0 where it is not there. */
uint64_t store_image_size(const struct store *s, const char *id);
