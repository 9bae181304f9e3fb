/*
 * job.h: one program under way: its pipes, what it printed, the steps before and after
 * it, and at the end its result. On an island of its own, or as a command on a live one.
 *
 *   own island:   RUN                          where there is nothing to do but run
 *                 MAKE, PUT, COMPILE, PROGRAM, GET, KILL
 *   live island:        PUT, COMPILE, PROGRAM, CLEAN, GET
 *   a context's cell:   PUT, CELL, GET         in an interpreter that stays (context.h)
 */
#pragma once

#include "base/buf.h"
#include "base/loop.h"
#include "core/error.h"
#include "core/result.h"
#include "engine/engine.h"
#include "engine/pipes.h"
#include "policy/script.h"
#include "session/drain.h"
#include "session/islands.h"
#include "spec/request.h"
#include "spec/runtime.h"

#include <stdbool.h>

struct job;
struct json;

/* Any but ended may be NULL. None is called from inside a function of this header. */
struct job_events {
	/* It is about to begin; what holds it was read back. */
	void (*started)(struct job *j);
	/* Bytes as they come. True: no more, until job_resume(). */
	bool (*output)(struct job *j, enum stream s, const char *data, size_t len);
	/* Something that its code shows or asks for: "display", "note", "input"; of code alone. */
	void (*shown)(struct job *j, const char *what, const struct json *data);
	/*
	 * The last: a result, or an error of ours with res NULL. The result is the job's,
	 * until job_free(), which may be called here.
	 */
	void (*ended)(struct job *j, const struct result *res, const struct cay_error *err);
};

/* What is asked for, decided: everything a job needs. */
struct job_order {
	struct request_body *body; /* taken over */
	const struct settings *settings;
	char *image; /* what the island is made of, by name */
	struct runtime runtime;
	bool has_runtime;
	struct script script;
	struct plan *plan;
	/* On a live island: whose, and what holds it (borrowed until the job has ended). */
	char sandbox[ID_SIZE];
	const struct isolation *isolation;
	bool warm;                          /* it was borne by an interpreter */
	const struct network_spec *network; /* as it is now, which may not be as the plan says */
	const struct engine *engine;        /* that was decided on, by the spec */
	struct decision decision;           /* why this one */
	/* Without a sandbox: by which connection it was asked for (borrowed until job_start() has
	   returned), or -1. */
	int peer;
	/* In which the code runs (borrowed until job_start() has returned); NULL: in none that
	   stays. */
	struct context *context;
	double queued_ms; /* that it waited for room */
	bool may_ask;     /* somebody could answer what the code asks for */
	bool streamed;    /* somebody takes all it prints, as fast as they can: that is no flood */
};

/*
 * Chooses image and runtime, and makes the plan. On a live island (spec.island) image is what that
 * is made of, or NULL for the host's own. body is taken over, also on failure.
 */
struct image;
int job_order_make(struct job_order *o, const struct settings *settings, struct request_body *body,
		   const struct image *image, struct cay_error *err);
void job_order_done(struct job_order *o);

/* Where jobs are carried out. */
struct job_place {
	struct loop *loop;
	struct islands *islands;
	struct islands *containers; /* of engines that have those; NULL: there are none */
	struct outlets *outlets;    /* NULL: no island gets a network */
	struct drains *drains;
};

/* Who makes what that engine has. */
struct islands *job_islands(const struct job_place *place, enum spec_engine engine);

/*
 * Starts it; the order is taken over. on: the live island it runs on, or NULL. Returns
 * NULL and err where it can't even be begun; ended is not called then.
 */
struct job *job_start(const struct job_place *place, struct island_ref *on, struct job_order *o,
		      const struct job_events *events, void *ctx, struct cay_error *err);

void *job_ctx(const struct job *j);
const char *job_id(const struct job *j);
const struct job_order *job_order(const struct job *j);

/* What held it, as far as it is known: from started on. */
const struct isolation *job_isolation(const struct job *j);

/* Ends it; its result says why. */
void job_cancel(struct job *j, enum cause cause, int signal);

void job_resume(struct job *j, enum stream s);

/* Also hears what is printed, before the one who asked for the job. */
typedef void job_tap_fn(void *ctx, struct job *j, enum stream s, const char *data, size_t len);
void job_tap(struct job *j, job_tap_fn *fn, void *ctx);

/* What the launcher says of a command of a live island; false: it is not this job's. */
bool job_report(struct job *j, const struct service_report *r);

/* A job that has not ended is ended, and nobody is told. */
void job_free(struct job *j);
