/*
 * rush.h: how many islands began lately and have not ended. As many as there are CPUs, and what is
 * made ahead now is made with time that somebody is waiting for. Old ones do not count: they sleep,
 * for all we know.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Lately: in this span of time or the one before it. */
#define RUSH_MS 50

struct rush {
	int64_t span;
	size_t now, before;
};

/* Times are of clock_now_ms(). */

size_t rush_count(struct rush *r, int64_t now_ms);

/* Returns what rush_end() wants to know. */
int64_t rush_begin(struct rush *r, int64_t now_ms);
void rush_end(struct rush *r, int64_t began, int64_t now_ms);
