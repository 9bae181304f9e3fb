/*
 * dial.h: connects to one of several addresses: the first that answers. The next one is tried
 * when one fails, or has not answered for a while.
 */
#pragma once

#include "base/loop.h"
#include "core/address.h"
#include "core/egress.h"

#include <stddef.h>

#define DIAL_ADDRESSES  4
#define DIAL_STAGGER_MS 250

struct dial;

struct dial_try {
	struct loop_fd f;
	struct dial *dial;
};

struct dial {
	struct loop *loop;   /* of sockets */
	struct loop *timers; /* which may be another */
	uint64_t timeout_ms;
	/* Once: fd is the caller's from then on, or -1 and why. */
	void (*done)(struct dial *d, int fd, enum egress_why why);
	void *ctx;
	/* dial.c's own. */
	struct address list[DIAL_ADDRESSES];
	size_t n, next, open;
	uint16_t port;
	uint64_t until_ns;
	enum egress_why why; /* of what went wrong so far */
	struct dial_try tries[DIAL_ADDRESSES];
	struct loop_timer timer;
};

/*
 * Of the addresses, which are all allowed, the first of each kind in turn. done is called later.
 * 0 or -ENOMEM.
 */
int dial_start(struct dial *d, const struct address *list, size_t n, uint16_t port);

/* Ends what goes on; done is not called. All zeros can be stopped, too. */
void dial_stop(struct dial *d);
