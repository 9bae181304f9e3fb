/*
 * logs.h: the last of what the commands of a sandbox printed, bounded, and those who
 * follow it.
 */
#pragma once

#include "core/event.h"
#include "core/id.h"

#include <stddef.h>
#include <stdint.h>

#define LOGS_MAX_BYTES (1u << 20) /* with what it takes to keep them */

struct log_piece {
	char run[ID_SIZE];
	enum stream stream;
	int64_t time_ms;
	const char *data;
	size_t len;
};

/* Pieces that came one after the other, of one run and stream; the time is the first's. */
struct log_chunk {
	struct log_chunk *next;
	struct log_piece all;
	size_t room;
	char data[];
};

struct log_follower {
	struct log_follower *next;
	void *ctx;
	void (*piece)(void *ctx, const struct log_piece *p);
	void (*end)(void *ctx); /* there will be no more */
};

/* All zeros is an empty one. */
struct logs {
	struct log_chunk *first, *last;
	size_t bytes;
	struct log_follower *followers;
};

/* Past the maximum the oldest go. What can't be kept is not: logs never fail a command. */
void logs_add(struct logs *l, const char *run, enum stream s, const char *data, size_t len);

/* f is the caller's, and stays where it is until it is removed. */
void logs_follow(struct logs *l, struct log_follower *f);
void logs_unfollow(struct logs *l, struct log_follower *f);

/* Tells the followers that it is over. */
void logs_done(struct logs *l);
