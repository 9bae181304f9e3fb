/*
 * relay.h: moves bytes between two connected sockets, both ways, until both have said their
 * last. A half that ends is ended at the other side too, behind all its bytes; a reset is the
 * caller's to pass on.
 *
 * Bytes go by splice() through a pipe. Those from the island are first shown to the caller, for as
 * long as it wants that: then they go through a buffer.
 */
#pragma once

#include "base/loop.h"
#include "egress/pipes.h"
#include "egress/sniff.h"

#include <stdbool.h>
#include <stddef.h>

enum relay_side { RELAY_ISLAND, RELAY_UPSTREAM };

/*
 * What the caller makes of bytes that it was shown. *ret_held: how many of those that have not gone
 * yet, the last ones, are kept back.
 */
enum relay_shown {
	RELAY_MORE,   /* the held ones until it can be told; the next ones are shown, too */
	RELAY_DONE,   /* all go, and no more need be shown */
	RELAY_IGNORE, /* the held ones, and all that come, are for nobody */
	RELAY_END,
};

enum relay_end {
	RELAY_FINISHED,
	RELAY_RESET,  /* by one of the sides */
	RELAY_DENIED, /* RELAY_END */
	RELAY_FAILED, /* no fds or no memory */
};

struct relay_calls {
	/* How many bytes may be read from a side now; 0: none before relay_resume(). */
	size_t (*room)(void *ctx, enum relay_side from);
	void (*moved)(void *ctx, enum relay_side from, size_t bytes);
	/* No more bytes come from a side, and the other one knows; bytes of that may still go on.
	 */
	void (*half)(void *ctx, enum relay_side from);
	/*
	 * Only bytes not shown before. None: no more will come, and what is still held then goes
	 * nowhere. NULL: nothing is to be shown.
	 */
	enum relay_shown (*show)(void *ctx, const char *data, size_t len, size_t *ret_held);
	/* The last call. The sockets are no longer in the loop, and the caller's to close. */
	void (*ended)(void *ctx, enum relay_end how);
};

/* More than this is not held back. */
#define RELAY_HELD_MAX SNIFF_HELD_MAX

struct relay_flow {
	struct pipe *pipe; /* NULL: there are no bytes */
	size_t in_pipe;
	char *held; /* bytes that are shown, or go first; NULL: there are none */
	size_t at, cleared, len, size;
	bool show;   /* the next bytes are to be shown */
	bool ignore; /* they are for nobody */
	bool paused; /* there was no room */
	bool ended;  /* no more will come */
	bool passed; /* and the other side knows */
};

struct relay {
	struct loop *loop;
	struct pipes *pipes;
	const struct relay_calls *calls;
	void *ctx;
	struct loop_fd side[2];
	struct relay_flow flow[2]; /* by the side they come from */
};

/* Non-blocking sockets. 0, or -errno: nothing was begun. */
int relay_start(struct relay *r, int island, int upstream);

/*
 * Right after the start: bytes that go upstream before any that the island sends. The last unseen
 * ones are shown, as if they came from it. May end it.
 */
void relay_begin_with(struct relay *r, const char *data, size_t len, size_t unseen);

/* There may be room again for bytes from a side. May end it. */
void relay_resume(struct relay *r, enum relay_side from);

/* Gives up what it holds; nothing is called any more. The sockets stay open. */
void relay_stop(struct relay *r);
