/*
 * pipes.h: pipes that bytes pass through between two sockets, without being copied. A pool: one
 * is only held while there are bytes in it.
 */
#pragma once

#include <stddef.h>

/* What one holds, and how many are kept for the next who needs one. */
#define PIPE_BYTES (256u << 10)
#define PIPES_KEPT 32

struct pipe {
	int read, write;
	struct pipe *next;
};

struct pipes {
	struct pipe *kept;
	size_t n_kept;
};

void pipes_done(struct pipes *p);

/* NULL and errno when there are no more fds, or memory. */
struct pipe *pipes_take(struct pipes *p);

/* empty: it has no bytes in it, and may be the next one's. */
void pipes_give(struct pipes *p, struct pipe *pipe, int empty);
