/*
 * watch.h: for engines: stands by a running program until it and its output
 * have ended: moves bytes, keeps the deadlines, takes the cancellation.
 */
#pragma once

#include "core/event.h"
#include "core/limits.h"
#include "core/result.h"

#include <stdint.h>

/* Why we ended it, where it did not end by itself. */
enum cause {
	CAUSE_NONE,
	CAUSE_TIMEOUT,
	CAUSE_CPU_TIME,
	CAUSE_MEMORY,
	CAUSE_OUTPUT,
	CAUSE_CANCELLED,
	CAUSE_ERROR, /* of our own: what it prints would be lost */
};

struct watch {
	const struct limits *limits;
	uint64_t start_ns;
	int stdin_fd;        /* the caller's; stays open */
	int stdin_pipe;      /* write end, ours to close; -1 */
	int output[STREAMS]; /* read ends, ours to close */
	int cancel_fd;       /* -1 */
	int oom_event;       /* -1 */
	int alive_fd;        /* readable when the program is gone */
	struct sink sink;
	void *ctx;
	void (*kill)(void *ctx);       /* it and all it started: alive_fd speaks then, if not yet */
	void (*clear)(void *ctx);      /* what it left, when it is gone; NULL: kill does it */
	uint64_t (*cpu_ms)(void *ctx); /* NULL: not known */
};

struct watched {
	enum cause cause;
	int signal; /* CAUSE_CANCELLED: which one */
	int error;  /* CAUSE_ERROR: errno of output; 0: the sandbox is why */
};

/* Returns when alive_fd has spoken and the output has ended. Never fails: it can always kill. */
void watch_until_end(struct watch *w, struct watched *ret);

/*
 * Puts status, message, exit code and signal together. wait_status: of the program,
 * or -1. ret->compile is filled already.
 */
void watch_conclude(const struct watched *w, const struct limits *limits, int wait_status,
		    struct result *ret);
