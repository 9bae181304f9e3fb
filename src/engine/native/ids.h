/*
 * ids.h: a range of host ids for each island that runs at the same time, so
 * that no two islands are ever the same user to the kernel.
 */
#pragma once

#include "core/error.h"

#include <stdbool.h>
#include <stdint.h>

#define IDS_RANGE       65536u
#define IDS_RANGES_LOW  4095u
#define IDS_RANGES_HIGH 32765u
#define IDS_RANGES      (IDS_RANGES_LOW + IDS_RANGES_HIGH)
#define IDS_AREAS       2

/*
 * The ranges of one launcher. A range is a locked byte of one file, so a process
 * that is killed gives its ranges back by dying. The file is opened once: a lock
 * of one's own is no obstacle, and who opens it a thousand times makes the kernel
 * look through a thousand locks each time one is closed.
 */
struct ids {
	int lock;                            /* -1 until the first range is taken */
	uint32_t next[IDS_AREAS];            /* where to look first, in each */
	uint8_t taken[(IDS_RANGES + 7) / 8]; /* a bit for each */
};

/*
 * Whether we are root over all ids, not the root of a container's user namespace.
 * Where that is not known there is no island: with one id it would be the host's
 * root's. *ret_error: why it is not known, or 0.
 */
bool ids_all_owned(int *ret_error);

void ids_init(struct ids *i);
void ids_done(struct ids *i);

/* Takes a free range; its first host id. */
int ids_take(struct ids *i, uint32_t *ret_base, struct cay_error *err);
void ids_give(struct ids *i, uint32_t base);

/* The same with n ranges, one behind the other; two and more are above 2^31. */
int ids_take_block(struct ids *i, uint32_t n, uint32_t *ret_base, struct cay_error *err);
void ids_give_block(struct ids *i, uint32_t base, uint32_t n);
