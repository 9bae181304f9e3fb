/*
 * ids.h: a range of host ids for each island that runs at the same time, so
 * that no two islands are ever the same user to the kernel.
 */
#pragma once

#include "core/error.h"

#include <stdint.h>

#define IDS_RANGE 65536u

struct ids {
	int lock;      /* held open as long as the island lives, by launcher and init */
	uint32_t base; /* first host id */
};

/*
 * Takes a free range. Ranges are locked bytes of one file, so a process that
 * is killed gives its range back by dying.
 */
int ids_take(struct ids *ret, struct cay_error *err);
void ids_release(struct ids *i);
