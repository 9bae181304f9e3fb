/*
 * outlet.h: the api's side of cay-egress (egress/wire.h): an outlet for each island that has a
 * network. Nothing here waits. When cay-egress ends, the next one is given all outlets again:
 * what it had carried is lost, and nothing is carried until then.
 */
#pragma once

#include "core/egress.h"
#include "core/error.h"
#include "egress/wire.h"
#include "policy/plan.h"

#include <stdint.h>

struct loop;
struct outlets;
struct outlet_ask;

struct outlet_rules {
	enum network_mode mode;
	char *text; /* as they go behind a request */
	size_t len;
};

/* One island's, inside a struct of the caller's. All zeros is none. */
struct outlet {
	struct outlets *all;
	struct outlet *next;
	uint64_t number; /* 0: it is not open */
	char name[ID_SIZE];
	struct outlet_rules rules;
	struct outlet_ask *change; /* of the rules; NULL: none is under way */
	struct outlet_rules changed;
	int wires[EGRESS_FDS];
};

/* Takes sock over. NULL: no memory. */
struct outlets *outlets_new(struct loop *loop, int sock);
void outlets_free(struct outlets *all);

/* As cay-egress last said, with what those before it did. */
const struct egress_totals *outlets_totals(const struct outlets *all);

/* For a plan with a network; before its island is asked for. 0 or -1. */
int outlet_prepare(struct outlet *o, struct outlets *all, const struct plan *p,
		   struct cay_error *err);

/* The island's wires have come, and are the outlet's from here on, also on failure. */
int outlet_open(struct outlet *o, const int wires[EGRESS_FDS], struct cay_error *err);

/* err NULL: the rules hold. Else those that were before do. */
typedef void outlet_ruled_fn(void *ctx, const struct cay_error *err);

/*
 * New connections obey; those that would not be allowed any more are ended. 0: ruled is called when
 * that is so, never from inside the call, within a few seconds in any case, and also where
 * cay-egress ends meanwhile. 1: it is so already, because it is not open yet. -1;
 * CAY_E_CONFLICT: another change is under way.
 */
int outlet_set_rules(struct outlet *o, const struct network_spec *n, outlet_ruled_fn *ruled,
		     void *ctx, struct cay_error *err);

/* What became of its connections: the log is the callee's. Where it is not known, it says so. */
typedef void outlet_told_fn(void *ctx, struct egress_log log);

/*
 * Asks for all of it so far; close: and that was it. Never told from inside the call; within a
 * few seconds in any case. -1: it is not told.
 */
int outlet_ask(struct outlet *o, bool close, outlet_told_fn *told, void *ctx);

/* Who asked is told nothing any more. */
void outlets_forget(struct outlets *all, const void *ctx);

/* Ends all its connections, if it is open. */
void outlet_done(struct outlet *o);
