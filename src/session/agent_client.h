/*
 * agent_client.h: the other end of the files agent (engine/agent.h), in the
 * api: one operation on the files of a sandbox over the loop, without waiting, in
 * constant memory whatever its size.
 *
 * The agent's ends are two pipes, not a socketpair (both move gigabytes a second):
 * an agent that answers and goes while bytes are still under way to it leaves its
 * answer readable, where a socket would say ECONNRESET first.
 *
 * Nothing that comes is believed: user code may have got hold of the agent. What
 * breaks the rules of agent_wire.h ends the call as an error; names that come in
 * lists and trees have neither "..", "." nor empty parts and are not absolute,
 * but may be any other bytes without NUL.
 */
#pragma once

#include "core/error.h"
#include "engine/agent_wire.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct loop;
struct agent_call;

struct agent_ask {
	enum agent_op op;
	unsigned flags; /* enum agent_flag */
	const char *path;
	const char *arg;       /* of move, list and tree out; may be NULL */
	size_t arg_len;        /* 0: strlen(arg) */
	unsigned mode;         /* of write and mkdir: or AGENT_MODE_KEEP */
	unsigned depth, count; /* of list; count of diff, too */
	uint64_t offset, length;
	/* How long the agent may be silent while we wait for it (a large removal is); 0: for ever.
	 */
	uint64_t idle_ms;
};

struct agent_file {
	enum agent_type type;
	unsigned mode; /* 0 to 07777 */
	const char *path;
	const char *target; /* of a link; "" else */
	uint64_t size;
	int64_t mtime_ns;
	unsigned glob;
	enum agent_change change; /* of diff: created, modified or deleted */
};

struct agent_news {
	enum agent_change change;
	bool is_dir;
	const char *path;
	const char *to; /* of a move; "" else */
};

/*
 * What the caller hears. Any may be NULL but done. Inside, all functions below may
 * be called, agent_call_free() too.
 */
struct agent_sink {
	void (*entry)(void *ctx, const struct agent_file *file);
	void (*data)(void *ctx, const void *data, size_t len); /* of the last entry */
	void (*news)(void *ctx, const struct agent_news *news);
	void (*room)(void *ctx); /* after one of the senders took less than all */
	/* Once, and the last: end where it succeeded, err where it did not. */
	void (*done)(void *ctx, const struct agent_end *end, const struct cay_error *err);
};

/* Takes both fds over, also on failure; they become non-blocking. */
struct agent_call *agent_call_new(struct loop *loop, int to_fd, int from_fd,
				  const struct agent_ask *ask, const struct agent_sink *sink,
				  void *ctx, struct cay_error *err);

/* At any time; before it is done this breaks it off: nothing half-written stays. */
void agent_call_free(struct agent_call *c);

/*
 * The body of write and tree in. How many bytes were taken: fewer than all, room
 * will say when there is place again. After a failure all are taken and dropped:
 * done tells, or has told.
 */
size_t agent_call_send(struct agent_call *c, const void *data, size_t len);

/* The next entry of tree in. 0, -EAGAIN (room will say), or -EINVAL for what the wire can't carry.
 */
int agent_call_entry(struct agent_call *c, const struct agent_file *file);

/* The body is whole. */
void agent_call_end(struct agent_call *c);

/* Holds back what comes, and lets it come again. */
void agent_call_pause(struct agent_call *c, bool paused);
