/*
 * context_impl.h: contexts from the inside, for the files context*.c alone.
 */
#pragma once

#include "core/capture.h"
#include "session/context.h"
#include "spec/runtime.h"

enum context_state { CONTEXT_ENDED, CONTEXT_STARTING, CONTEXT_IDLE, CONTEXT_BUSY };

struct context_stream {
	struct loop_fd in;
	struct context *context;
	enum stream which;
	bool paused;
	struct capture held; /* what was printed between cells */
	uint64_t between;    /* how many bytes that was */
};

struct context {
	struct context *next;
	struct contexts *all;
	char *name;
	const struct language *language;
	char language_version[VERSION_SIZE];
	struct plan *plan;
	char *version, *workdir; /* as asked for; or NULL */
	struct strv env;
	enum context_state state;
	uint32_t command; /* 0: there is no process */
	struct channel channel;
	struct context_stream streams[STREAMS];
	struct cell *cells; /* the first is the one whose turn it is */
	char run[ID_SIZE];  /* the last one's id */
	struct loop_timer next_turn, deadline, again, grace, starting;
	uint64_t begun_ns; /* the cell */
	/* The cell is done, and what it took is being asked for. */
	bool measures;
	unsigned unanswered; /* questions of what the process took */
	double cpu_ms;       /* that it had taken when the last cell ended */
	int done_code;
	struct json *done_exception;
	enum cause cause; /* why the cell is being ended */
	bool unheard;     /* it was told so when nobody there heard anything */
	bool fresh;       /* its first cell has not begun */
	char start[RESULT_START_SIZE];
	struct isolation isolation;
	char why[160];       /* what it said that it must not */
	char ended[256];     /* why it ended, when no cell ran: the next is told */
	bool asks, password; /* it waits for input */
	char *prompt;
	int64_t created_ms, last_used_ms;
	uint64_t n_cells;
};

/* context_io.c: its pipes. theirs: to be passed on, and closed. */
int context_io_open(struct context *c, int ret_theirs[3], struct cay_error *err);
/* What is there now, and no more, to its cell; then nobody reads on where close is true. */
void context_io_take(struct context *c, bool close);
/* What was held goes to the cell that begins. */
void context_io_begin(struct context *c);

/* context.c: what calls us by itself; at first. */
void context_init(struct context *c);
/* Its process and its cells end, and nothing of it calls us any more. */
void context_abandon(struct context *c);

static inline bool context_is_at_work(const struct context *c)
{
	return c->state == CONTEXT_BUSY || c->state == CONTEXT_STARTING;
}
