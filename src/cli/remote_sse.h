/*
 * remote_sse.h: server-sent events out of bytes as they come. Pure. Names and data have a
 * maximum; ids and retry times are not ours.
 */
#pragma once

#include "base/buf.h"

#include <stdbool.h>
#include <stddef.h>

#define SSE_NAME_MAX 31

struct sse {
	struct buf line; /* that has only begun */
	struct buf data; /* of the event so far */
	char name[SSE_NAME_MAX + 1];
	bool has_data;
	bool after_cr; /* a line feed now belongs to the line that has ended */
};

void sse_init(struct sse *s, size_t max_bytes);
void sse_done(struct sse *s);

/* data is followed by a NUL that does not count. 0, 1 to stop, or -errno. */
typedef int sse_fn(void *ctx, const char *name, const char *data, size_t len);

/* 0, what fn answered if not 0, -EFBIG past the maximum, or -ENOMEM. */
int sse_feed(struct sse *s, const char *bytes, size_t len, sse_fn *fn, void *ctx);
