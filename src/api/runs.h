/*
 * runs.h: runs under way: POST /v1/runs, and what starts runs in other ways (batches,
 * commands of sandboxes). What is over is in the store: run_history.h.
 */
#pragma once

#include "api/router.h"
#include "core/error.h"
#include "store/owner.h"
#include "store/runs.h"

#include <stddef.h>
#include <stdint.h>

struct api;
struct caller;
struct exchange;
struct json;
struct peer;
struct request_body;
struct run_entry;
struct runs;
struct sandbox;

extern const struct route route_run_cancel, route_run_create, route_sandbox_run;

/* The runs of a daemon. NULL: no memory. */
struct runs *runs_new(struct api *api);
void runs_free(struct runs *r);

/* How many are under way, also waiting; and how many of them wait for room. */
size_t runs_active(const struct runs *r);
size_t runs_waiting(const struct runs *r);

/* There may be room for some that wait: they begin. */
void runs_serve(struct runs *r);

/* None that waits will begin: the daemon is ending. */
void runs_turn_away(struct runs *r);

/* Ends all of theirs, soon: who waits for one is told that it was cancelled. */
void runs_cancel(struct runs *r, const struct viewer *whose);

#define RUN_WAITS_ANY UINT64_MAX

struct run_ask {
	const struct caller *caller; /* whose it is; not kept */
	const struct peer *peer;     /* by which connection it came; not kept */
	struct request_body *body;   /* taken over, also on failure */
	struct sandbox *on;          /* NULL: an island of its own */
	bool told;                   /* somebody follows it: see run_follow() */
	size_t bytes; /* of the request, where nothing else bounds how many there are */
	bool patient; /* it waits for room as long as it takes, where it does not say */
	/*
	 * Its end: a result, or an error of ours beside its JSON. The JSON is the callee's to
	 * free. NULL: nobody waits. Never called from inside a function of this header.
	 */
	void (*ended)(void *ctx, struct json *result, const struct cay_error *err);
	void *ctx;
};

/*
 * Starts it within the caller's bounds and quotas, or has it wait for room in the caller's queue
 * (run_queue.c). NULL and err, where *ret_retry_s is when it may be tried again if err says that
 * there is no room, and none to wait in.
 */
struct run_entry *run_start(struct api *api, const struct run_ask *ask, int64_t *ret_retry_s,
			    struct cay_error *err);

/* Nobody waits for it any more: ended is not called, and it is cancelled. */
void run_leave(struct run_entry *e);

/* Starts what x asks for, in the way it asks (plain, events, background, dry), and answers x. */
void run_answer(struct exchange *x, struct request_body *body, struct sandbox *on);

/* One under way that the viewer may see, or NULL. */
struct run_entry *run_find(struct runs *r, const struct viewer *v, const char *id);
const struct run_record *run_entry_record(const struct run_entry *e);
/* x hears of it from here on, by events. */
void run_follow(struct run_entry *e, struct exchange *x);

typedef void runs_each_fn(void *ctx, const struct run_record *r);
void runs_each(struct runs *r, const struct viewer *v, runs_each_fn *fn, void *ctx);
