/*
 * job_impl.h: a job from the inside, for the files job*.c alone.
 */
#pragma once

#include "policy/command.h"
#include "session/context.h"
#include "session/files_call.h"
#include "session/files_put.h"
#include "session/job.h"

enum job_step {
	STEP_RUN,     /* on an island of its own, and nothing else to do */
	STEP_MAKE,    /* an island of its own that takes commands */
	STEP_PUT,     /* files in */
	STEP_TICK,    /* files of this moment are not to be taken for the program's */
	STEP_COMPILE, /* a command */
	STEP_MAIN,    /* the command */
	STEP_CELL,    /* its code, in a context */
	STEP_CLEAN,   /* what was put there for it alone goes */
	STEP_GET,     /* files out */
	STEP_EGRESS,  /* what became of its connections is asked for: nothing runs any more */
	STEP_OVER,
};

struct job_stream {
	struct loop_fd in;
	struct job *job;
	enum stream which;
	bool paused; /* by whoever takes the output */
	bool held;   /* nothing is to be heard of it yet */
};

struct job {
	struct job_place place;
	struct island_ref own; /* where it is not on a live one */
	struct island_ref *ref;
	uint32_t command; /* that runs now; 0: the island itself is the job's */
	struct job_order order;
	const struct job_events *events;
	job_tap_fn *tap; /* or NULL */
	void *tap_ctx;
	void *ctx;
	enum job_step step;
	uint64_t start_ns;
	/* The program's pipes. */
	struct job_stream streams[STREAMS];
	struct loop_fd input;
	size_t input_done;
	/* Of code that a driver runs: job_cell.c. */
	struct cell cell;
	struct channel channel; /* where the driver is the job's own program */
	struct channel_input stdin_lines;
	bool done; /* the code has ended: done_code says how */
	int done_code;
	char why[160]; /* its interpreter was ended for this; or "" */
	/* Files. */
	struct agent_call *call;
	struct files_put put;
	char build[BUILD_SIZE]; /* where its compiler works */
	uint64_t get_bytes;
	uint64_t since;   /* when it began, as files have it; 0: nobody asks for what is new */
	unsigned cleaned; /* how many of what it leaves */
	bool ran;         /* the program's own step is behind it */
	/* How it ended. */
	bool reported; /* how the program ended is known */
	bool failed;
	int status;
	struct watched watched;
	uint32_t uid; /* without a sandbox: whom it ran as, once that is known; else 0 */
	struct cay_error error;
	struct result result;
	struct egress_log before; /* on a live island: what others had done until it began */
	struct loop_timer next;   /* the next step, from the loop */
};

/* In the loop's next round, so that nobody is called from inside a call. */
void job_go_on(struct job *j);

void job_fail(struct job *j, const struct cay_error *err);

/* job_io.c: pipes of a program, their bytes, and their end. */
int job_io_open(struct job *j, bool with_input, int ret_theirs[3], struct cay_error *err);
/* What it prints waits until it is known to have started, which is told of first. */
void job_io_hold(struct job *j);
void job_io_go_on(struct job *j);
bool job_io_ended(const struct job *j);
void job_io_leave(struct job *j); /* what is still open goes on being read by nobody's hand */
void job_io_close(struct job *j);

/* job_cell.c: what a driver makes of the order's code. */
bool job_is_driven(const struct job *j);
/* The driver's end of the channel, instead of a pipe. */
int job_channel_open(struct job *j, int *ret_theirs, struct cay_error *err);
/* From its start on it has a place in the context; its turn may come once it has begun. */
void job_cell_expect(struct job *j);
void job_cell_begin(struct job *j);
/* It ends, for a cause; or, where nobody wants to hear of it, without a word. */
void job_cell_cancel(struct job *j, enum cause cause);
void job_cell_leave(struct job *j);
/* Says in the result how the code ended, where its own end was another one. */
void job_cell_conclude(struct job *j);

/* What a program printed, to all who want to have it. True: they can't take more now. */
bool job_take_output(struct job *j, enum stream s, const char *data, size_t len);

/* job_files.c: each begins its step, which goes on by itself; 0 or -1. */
bool job_has_files(const struct job *j);
/* Whether all that is new is asked for: by "*". */
bool job_gets_new(const struct job *j);
int job_put(struct job *j, struct cay_error *err);
int job_get(struct job *j, struct cay_error *err);

/* The next of what it leaves on a live island. 1: there is none. What can't go stays. */
int job_clean(struct job *j);
