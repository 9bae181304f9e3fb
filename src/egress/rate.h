/*
 * rate.h: so many bytes, or so many of something else, a second. Pure.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct rate {
	uint64_t per_second; /* 0: as many as there are */
	uint64_t most;       /* at once */
	uint64_t least;      /* fewer at once are not worth it */
	uint64_t level;      /* that may go now */
	uint64_t at_ns;      /* when that was so */
};

/* Bytes: a tenth of a second's worth at once. */
struct rate rate_of_bytes(uint64_t per_second);

/* Things that are counted: a second's worth at once. */
struct rate rate_of_things(uint64_t per_second);

/* How many may go now. */
size_t rate_room(struct rate *r, uint64_t now_ns);

/* These went; not more than there was room for. */
void rate_use(struct rate *r, size_t n);
