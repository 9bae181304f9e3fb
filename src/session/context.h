/*
 * context.h: the interpreters of a sandbox that remember: each a command that stays, with a name,
 * whose driver (session/channel.h) runs one cell after the other.
 *
 *   ENDED ──cell──> STARTING ──ready──> BUSY <──cell, done──> IDLE
 *     ^────────────────┴── its process ended, or was ended ──┴┘
 *
 * A context begins with its first cell and is there until it is removed, or its island is gone.
 * Where its process ends, the cells that wait for it end as well, and the next one starts it
 * afresh. An interrupt is SIGINT to the driver's process group, by PID 1 of the island (orders.c).
 */
#pragma once

#include "core/event.h"
#include "core/id.h"
#include "core/result.h"
#include "engine/watch.h"
#include "session/channel.h"
#include "session/islands.h"
#include "session/logs.h"

#include <stdbool.h>
#include <stdint.h>

#define CONTEXTS_MAX     16    /* of a sandbox */
#define CONTEXT_CELLS    16    /* that wait in one, with the one that runs */
#define CONTEXT_GRACE_MS 2000  /* between interrupt and kill */
#define CONTEXT_START_MS 30000 /* of a start that no cell waits for */

struct cell;
struct context;
struct drains;
struct job_place;
struct json;
struct runtime;
struct strv;

/* How a cell ended. */
struct cell_end {
	const struct cay_error *err; /* its interpreter could not be started, or not be sent to */
	bool done; /* by itself: exit_code and exception; else by its interpreter's end */
	int exit_code;
	const struct json *exception;
	int status; /* of the interpreter, from wait(); -1: it never had one */
	enum cause cause;
	const char *why; /* it was ended because of what it said; or NULL */
	bool lost;       /* what it remembered is gone */
	/* CPU time since the last one's end, and the peak of memory; NULL: not known. */
	const struct usage *usage;
};

/* Only ended may be called from inside a function of this header. */
struct cell_events {
	/* Its turn has come. */
	void (*begun)(struct cell *c);
	/* True: no more of it, until context_resume(). */
	bool (*output)(struct cell *c, enum stream s, const char *data, size_t len);
	void (*shown)(struct cell *c, const struct json *bundle);
	void (*noted)(struct cell *c, const char *text);
	void (*asked)(struct cell *c, const char *prompt, bool password);
	/* The last. */
	void (*ended)(struct cell *c, const struct cell_end *e);
};

/* Inside a struct of the caller's, who sets what is not ours. */
struct cell {
	const struct cell_events *events;
	void *ctx;
	const char *run; /* its id */
	const char *code;
	size_t len;
	uint64_t timeout_ms;
	struct channel_input input;
	bool waits; /* where input was not given, somebody may yet answer */
	bool ticks; /* it begins when files that it changes are newer than all others */
	/* Ours. */
	bool prepared; /* what it needs is there: its turn may come */
	struct cell *next;
	struct context *context; /* NULL: it is in none */
	uint64_t since;          /* of one that ticks: when its turn came */
};

/* Of one sandbox; borrowed but for the list. */
struct contexts {
	struct context *list;
	size_t n;
	const struct job_place *place;
	struct island_ref *ref;
	struct logs *logs;
	bool frozen;                   /* nobody there hears anything: times that run out wait */
	uint64_t frozen_ns, thawed_ns; /* the last time */
};

void contexts_freeze(struct contexts *all, bool frozen);

void contexts_done(struct contexts *all);

/* What an interpreter is started as. */
struct context_start {
	const char *name;
	const struct runtime *runtime;
	const struct plan *plan; /* with the driver as its program; copied */
	/* What was asked for it, which later cells may only repeat; copied. */
	const char *version, *workdir; /* or NULL */
	const struct strv *env;
};

/*
 * The one of this name, or a new one. CAY_E_CONFLICT: it is of another kind; there are too many
 * already, or too many cells wait there.
 */
struct context *context_get(struct contexts *all, const struct context_start *s,
			    struct cay_error *err);

/*
 * The cell waits for its turn, after the others and until it is prepared: from here on the context
 * is held to its kind and not forgotten, or the cell is told.
 */
void context_run(struct context *c, struct cell *cell);
void cell_prepared(struct cell *cell);

/*
 * Ends a cell: one that waits is over, one that runs is interrupted, and its interpreter ended
 * where that does not help in time, or at once (harsh). ended is called then.
 */
void cell_cancel(struct cell *cell, enum cause cause, bool harsh);

/* The same at once, with no word but what it has printed. True: its interpreter was ended. */
bool cell_leave(struct cell *cell);

void cell_resume(struct cell *cell, enum stream s);

/* What holds it, and how it was started: from its begun on. */
const struct isolation *cell_isolation(const struct cell *cell);
const char *cell_start(const struct cell *cell); /* "kept", "warm:SET", "" */

struct context *context_find(const struct contexts *all, const char *name, struct cay_error *err);

/* CAY_E_CONFLICT: no cell runs there, or none that hears; nothing waits for input. */
int context_interrupt(struct context *c, struct cay_error *err);
int context_answer(struct context *c, const char *text, size_t len, struct cay_error *err);

/* Its interpreter ends, with all cells; a fresh one is started. */
int context_restart(struct context *c, struct cay_error *err);
/* It ends and is forgotten. */
void context_remove(struct context *c);

/* What the launcher says of a command; false: it is none of theirs. */
bool contexts_report(struct contexts *all, const struct service_report *r);

/* The island is gone, or has no process any more: their cells have been told. */
void contexts_lost(struct contexts *all, const char *reason);

/* As the API shows them; the caller frees it. */
struct json *context_json(const struct context *c);
struct json *contexts_json(const struct contexts *all);
