/*
 * channel.h: what is said between us and the driver of an interpreter (src/context), on a stream
 * socket that is the driver's standard input: texts of JSON, each ended by a NUL. It is made on the
 * island, and our end of it sent to us: one of ours would be of the host's network.
 *
 *   to it     {"type":"run","code":…,"rich":true}      (to a plain one: the code as it is)
 *             {"type":"input","text":…} or {"type":"input","error":…}
 *   from it   {"type":"ready"}, once; then while a cell runs:
 *             {"type":"result","data":{MIME:…}}, {"type":"note","text":…},
 *             {"type":"input","prompt":…,"password":…}, or with "stream":true for some of what was
 *             given, without waiting for anybody; at last {"type":"done",…}
 *
 * A cell can write to the socket as well as its driver does: what comes is believed no more than
 * what a program prints. All of it is bounded, and whatever is wrong or too much ends the
 * conversation, with a reason. What comes between cells, as from a thread that outlives its own,
 * is dropped unread.
 */
#pragma once

#include "base/buf.h"
#include "base/loop.h"
#include "core/error.h"

#include <stdbool.h>
#include <stddef.h>

#define CHANNEL_MESSAGE_MAX (16u << 20) /* bytes, either way; and of all that a cell shows */
#define CHANNEL_VALUE_MAX   (4u << 20)  /* of one MIME type */
/* As which a value inside JSON counts, or a name there, beside its characters; a list or object. */
#define CHANNEL_NODE_BYTES  64
#define CHANNEL_TREE_BYTES  256
#define CHANNEL_RESULTS_MAX 64
#define CHANNEL_NOTES_MAX   64
#define CHANNEL_TYPES_MAX   32 /* in one bundle */
#define CHANNEL_INPUT_MAX   (1u << 20)

/* What is asked for: a line, a line that is not shown, some of what is there. */
enum channel_ask { CHANNEL_ASK_LINE, CHANNEL_ASK_PASSWORD, CHANNEL_ASK_STREAM };

struct channel;
struct json;

/* Each may close the channel. What they are given is theirs for the call. */
struct channel_events {
	void (*ready)(struct channel *c);
	void (*shown)(struct channel *c, const struct json *bundle);
	void (*noted)(struct channel *c, const char *text);
	/* It waits until channel_answer() or channel_refuse(). */
	void (*asked)(struct channel *c, const char *prompt, enum channel_ask what);
	/* exception: or NULL. */
	void (*done)(struct channel *c, int exit_code, const struct json *exception);
	/* The last; the channel is closed. why: what it said that it must not; NULL: it ended. */
	void (*ended)(struct channel *c, const char *why);
};

enum channel_state { CHANNEL_NEW, CHANNEL_IDLE, CHANNEL_BUSY };

struct channel {
	const struct channel_events *events;
	void *ctx;
	/* Ours. */
	struct loop *loop;
	struct loop_fd sock;
	enum channel_state state;
	bool given; /* it is the channel itself, not what that will come by */
	bool plain;
	bool waits; /* for an answer */
	struct buf in, out;
	size_t sent; /* of out */
	size_t shown_bytes;
	size_t late_bytes; /* that came since the last cell's end */
	bool skips;        /* the rest of a message that began between cells */
	unsigned n_shown, n_notes;
};

/* One that is closed. */
#define CHANNEL_CLOSED ((struct channel){.sock.fd = -1})

/*
 * events and ctx are set. *ret_theirs: what our end is sent by where the driver is started
 * (ORDER_CHANNEL); the caller's to pass on and close.
 */
int channel_open(struct channel *c, struct loop *loop, bool plain, int *ret_theirs,
		 struct cay_error *err);
void channel_close(struct channel *c);

/* The next cell, when it is ready. CAY_E_TOO_LARGE. */
int channel_run(struct channel *c, const char *code, size_t len, struct cay_error *err);

/* A line for what it asked; or why there will be none. 0 or -errno. */
int channel_answer(struct channel *c, const char *text, size_t len);
int channel_refuse(struct channel *c, const char *why);

/* Takes what has come by now: its other end is gone. */
void channel_take_rest(struct channel *c);

/* Input that is there from the start. */
struct channel_input {
	bool given;
	const char *data;
	size_t len, at;
};

/*
 * Answers with the next line, or some of it, or that there is no more. False: none was given, and
 * it is a line that is asked for.
 */
bool channel_feed(struct channel *c, struct channel_input *in, enum channel_ask what);
