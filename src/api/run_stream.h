/*
 * run_stream.h: those who follow a run by server-sent events: start, stdout, stderr, of code that
 * is shown also display, note and input, then result or error. Output is {"text":…} where it is
 * UTF-8 (sequences are never cut), else {"base64":…}.
 */
#pragma once

#include "core/error.h"
#include "core/event.h"

#include <stdbool.h>
#include <stddef.h>

struct exchange;
struct isolation;
struct json;

#define RUN_FOLLOWERS_MAX 16

struct run_stream {
	void *ctx;
	/* All followers take more again. */
	void (*drained)(void *ctx, enum stream s);
	/* The one whose going away matters went away. */
	void (*left)(void *ctx);
	/* Ours. */
	struct run_follower *followers;
	size_t n_followers;
	char held[STREAMS][4]; /* a sequence that has only begun */
	size_t n_held[STREAMS];
	bool paused[STREAMS];
};

/* owner: the run was asked for by this one. Too many are refused, and answered so. */
void run_stream_add(struct run_stream *s, struct exchange *x, bool owner);

void run_stream_start(struct run_stream *s, const char *id, const struct isolation *i);

/* Any other event, whose data are bounded. */
void run_stream_tell(struct run_stream *s, const char *event, const struct json *data);

/* True: a follower can't take more now. */
bool run_stream_output(struct run_stream *s, enum stream which, const char *data, size_t len);

/*
 * The last event, and the end. A follower that has had no event yet is answered with
 * err, where there is one, as any other request is.
 */
void run_stream_end(struct run_stream *s, const char *event, const struct json *j,
		    const struct cay_error *err);

/* Followers that are left are cut off. */
void run_stream_done(struct run_stream *s);
