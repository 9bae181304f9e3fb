/*
 * event.h: how what happens on an island travels up. An engine calls the sink;
 * whoever asked for the run provides it. Nothing below knows who listens.
 */
#pragma once

#include <stddef.h>
#include <sys/types.h>

enum stream { STREAM_STDOUT, STREAM_STDERR, STREAMS };

struct sink {
	void *ctx;
	/*
	 * Bytes of the program, as they come. Returns how many were taken; fewer
	 * than len means "not now", and the engine waits until wait_fd is writable.
	 * -EPIPE: nobody reads this stream any more; the engine closes its end, and
	 * the program finds a broken pipe. -EFBIG: a flood, -ENOMEM: no room for it;
	 * the run is ended.
	 */
	ssize_t (*output)(void *ctx, enum stream stream, const char *data, size_t len);
	int wait_fd[STREAMS];
	/* The compiler has ended: what came until now was its own. */
	void (*compiled)(void *ctx);
};
