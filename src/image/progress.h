/*
 * progress.h: how far work on an image has come, for whoever shows it.
 */
#pragma once

#include <stdint.h>

/* what: a layer's digest or the like; total: 0 where it is not known. */
struct progress {
	void (*report)(void *to, const char *what, uint64_t done, uint64_t total);
	void *to;
};
