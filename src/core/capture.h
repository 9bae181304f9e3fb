/*
 * capture.h: one output stream, bounded: the first and the last half of the
 * limit are kept (tracebacks come last), what lies between is counted and dropped.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct buf;

struct capture {
	size_t head_max, tail_max;
	char *head, *tail; /* grown on demand; tail is a ring once it is full */
	size_t head_len, head_cap;
	size_t tail_len, tail_cap, tail_start;
	uint64_t dropped;
};

void capture_init(struct capture *c, size_t limit);
void capture_done(struct capture *c);

/* Takes the bytes in; 0 or -ENOMEM. */
int capture_add(struct capture *c, const char *data, size_t len);

bool capture_truncated(const struct capture *c);

/* Appends what was kept: head, then tail. 0 or -errno. */
int capture_text(const struct capture *c, struct buf *out);
