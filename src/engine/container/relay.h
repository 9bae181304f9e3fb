/*
 * relay.h: one end of a wire (wire.h): frames in and out over a connection, streams between it and
 * fds of ours. Each stream is one way; who is slow holds up nobody else, as no more is sent than
 * the other side has room for. WIRE_BACK is never ahead of what its command printed before. What
 * comes is checked and bounded; what breaks the rules ends the
 * relay.
 */
#pragma once

#include "base/buf.h"
#include "base/loop.h"
#include "engine/container/frames.h"
#include "engine/container/wire.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Streams at a time: all of so many commands. */
#define RELAY_STREAMS_MAX (WIRE_COMMANDS * WIRE_STREAMS)
/* Frames that wait to be sent, beyond which the other side counts as gone. */
#define RELAY_OUT_MAX (4u << 20)
/* As much of what is no frame is kept, for an error's text. */
#define RELAY_WORDS_MAX 512u

struct relay;
struct relay_stream;

/* Inside, the relay may be used, but not be done. */
struct relay_events {
	/* Any frame that is not about a stream. body: h->len bytes. */
	void (*said)(struct relay *r, const struct wire_head *h, const void *body);
	/* A stream is over: all that it brought has been passed on, or nobody wants more. */
	void (*closed)(struct relay *r, uint32_t command);
	/* Once, and the last. why: what it said that it must not; NULL: the connection ended. */
	void (*ended)(struct relay *r, const char *why);
};

struct relay {
	const struct relay_events *events;
	void *ctx; /* the caller's */
	/* What came beside the frames, on standard error. */
	char words[RELAY_WORDS_MAX];
	size_t n_words;
	/* Ours. */
	struct loop *loop;
	struct loop_fd in, out;
	bool framed, over;
	bool from_guest; /* the other side is one, and must not say what only keepers do */
	struct frames frames;
	struct wire_head head;
	size_t have; /* of head and body */
	char *body;
	struct buf sending;
	size_t sent; /* of sending */
	struct relay_stream *streams;
	size_t n_streams;
};

/*
 * in_fd and out_fd, which may be the same, stay the caller's and become non-blocking. keeper: we
 * are that, and what comes is in the engine's own frames. events and ctx are set by the caller.
 * 0 or -errno; relay_done() in any case.
 */
int relay_init(struct relay *r, struct loop *loop, int in_fd, int out_fd, bool keeper);
/* Closes the streams' fds. */
void relay_done(struct relay *r);

/* Takes bytes that came before the relay did. */
void relay_take(struct relay *r, const char *data, size_t len);

/* A frame out of up to two pieces. 0 or -errno; a failure also ends the relay, soon. */
int relay_say(struct relay *r, enum wire_kind kind, uint32_t command, const void *head,
	      size_t head_len, const void *tail, size_t tail_len);

/*
 * From fd to the other side, or from there to fd. fd is taken over, also on failure. 0 or -errno.
 * Who needs one fd for both has it twice.
 */
int relay_from(struct relay *r, uint32_t command, enum wire_stream s, int fd);
int relay_to(struct relay *r, uint32_t command, enum wire_stream s, int fd);

/* Breaks all streams of a command off; nobody is told. */
void relay_drop(struct relay *r, uint32_t command);

/* How many streams of the command are not over. */
size_t relay_open(const struct relay *r, uint32_t command);

/* The fd of a stream, for what is asked of terminals; -1. */
int relay_fd(const struct relay *r, uint32_t command, enum wire_stream s);
