/*
 * files_op.h: one operation on a sandbox's files for one exchange; for files*.c alone.
 *
 * An operation lives as long as its exchange, its call at most as long: until it is
 * done, the client goes away, or there is nothing more to ask. The sandbox is held by
 * the call, so what is past the call's end must not look at it.
 */
#pragma once

#include "api/exchange.h"
#include "session/sandbox.h"

struct file_op {
	struct exchange *x;
	const struct file_kind *kind;
	struct sandbox *sandbox;
	struct agent_call *call; /* NULL: over */
	const char *path;        /* that was asked for */
	bool ends;               /* the sandbox was made for this alone */
};

/* on_close of the events must be file_op_close. */
struct file_kind {
	size_t size; /* of the struct that begins with a struct file_op */
	const struct exchange_events *events;
	const struct agent_sink *sink;       /* its ctx is the operation */
	void (*release)(struct file_op *op); /* of what it has beyond the call; may be NULL */
};

/* What the query may have beside "path", as bits; names are in files_op.c. */
enum file_param {
	PARAM_MODE = 1 << 0,
	PARAM_APPEND = 1 << 1,
	PARAM_OVERWRITE = 1 << 2,
	PARAM_RECURSIVE = 1 << 3,
	PARAM_FOLLOW = 1 << 4,
	PARAM_DEPTH = 1 << 5,
	PARAM_LIMIT = 1 << 6,
	PARAM_CURSOR = 1 << 7, /* the caller's to read */
	PARAM_FORMAT = 1 << 8, /* the same */
	PARAM_TOP = 1 << 9,    /* "path" may be left out: the workspace itself */
};

/* Fills the ask by the query. Unknown parameters are an error. */
int file_ask_query(struct agent_ask *ask, const struct request *q, unsigned params,
		   struct cay_error *err);

/* "0644" and the like. */
int file_parse_mode(const char *text, unsigned *ret, struct cay_error *err);

/* NULL: it could not be begun, and the exchange has been answered. */
void *file_op_begin(struct exchange *x, const struct file_kind *kind, const struct agent_ask *ask);

/* The same on a sandbox that the path does not name. ends: it goes with the operation. */
void *file_op_begin_on(struct exchange *x, struct sandbox *s, bool ends,
		       const struct file_kind *kind, const struct agent_ask *ask);

/* Another call in place of one that is done. */
int file_op_again(struct file_op *op, const struct agent_ask *ask, struct cay_error *err);

/* Ends the call, if it is not over: breaks it off, if it is not done. */
void file_op_over(struct file_op *op);

/*
 * The error as the answer, in better words where the agent could not know them. Where
 * the answer was begun it is broken off.
 */
void file_op_fail(struct file_op *op, const struct cay_error *err);

/* Ends the call, and answers. */
void file_op_answer(struct file_op *op, int status, const struct json *j);

/* Holds the agent back where the client is slow; file_op_drain, as on_drain, lets it go on. */
void file_op_pace(struct file_op *op);
void file_op_drain(struct exchange *x);

void file_op_close(struct exchange *x, enum exchange_end how);

/* files_archive.c: whether the query asks for an archive that can be; and the archive. */
int file_pack_check(struct exchange *x, struct cay_error *err);
void file_pack_of(struct exchange *x, struct sandbox *s, bool ends);

/* A path as JSON: beside key, key_base64 where it is no UTF-8. */
void file_set_path(struct json *j, const char *key, const char *path);

/* The same of what lies below dir, so that the answer is a path for the next request. */
void file_set_below(struct json *j, const char *key, const char *dir, const char *path);

/* An entry as the API shows it; dir: what its path is below, NULL where it has the whole. */
struct json *file_json(const char *dir, const struct agent_file *file);
