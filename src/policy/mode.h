/*
 * mode.h: whether a run is sandboxed. By what the operator says and what is asked for,
 * never by what the code looks like. Pure. docs/policy-table.md has all there is to it.
 */
#pragma once

#include "core/decision.h"
#include "core/error.h"
#include "settings/settings.h"
#include "spec/request.h"
#include "spec/spec.h"

#include <stdbool.h>

struct mode_question {
	enum mode allowed; /* the operator's word */
	enum mode asked;   /* the request's own; MODE_UNSAID */
	enum spec_engine engine;
	bool trusted;             /* the request says so */
	bool shell;               /* it is for a shell */
	bool network;             /* and gets a network */
	const char *risk;         /* the operator's rule that it falls under; NULL: none */
	bool key_direct;          /* the key's bounds have the engine direct */
	const char *tier_without; /* a tier that has no engine direct; NULL: there is none */
	bool scope;               /* it belongs into a scope's sandbox */
	bool own;                 /* by who asks, with nobody's rights but that one's: no daemon */
};

#define MODE_REASON_SIZE 200

struct mode_answer {
	enum spec_engine engine; /* never ENGINE_AUTO */
	enum mode mode;          /* in force: the stricter of both */
	/* For the result; "" where everything is sandboxed and nobody asked for more. */
	char reason[MODE_REASON_SIZE];
};

/*
 * A request can only ask for more of a sandbox than the operator does: less is
 * CAY_E_POLICY. What it does not ask for by name it gets as the mode says.
 */
int mode_decide(const struct mode_question *q, struct mode_answer *ret, struct cay_error *err);

/* Who asks, beside what the settings know (settings.key). NULL: no key. */
struct mode_caller {
	const char *key, *key_id;
	bool own;
};

/* The question that a request is. s is the caller's copy; labels may be NULL. */
struct mode_question mode_question(const struct settings *s, const struct mode_caller *caller,
				   const struct spec *spec, const struct strv *labels);

/* What was decided, in words that are never missing. scope may be NULL. */
struct decision mode_decision(const struct mode_answer *a, const struct settings *s,
			      const struct spec *spec, const char *scope);

/* The same for what runs in a sandbox that lives on, which is one whatever the mode. */
struct decision mode_decision_live(const struct settings *s, const struct spec *sandbox,
				   const char *scope);

/*
 * Whether all that is asked for can be had without a sandbox; else CAY_E_UNSUPPORTED that
 * names the field.
 */
int mode_check_direct(const struct request_body *q, struct cay_error *err);

/* Whether the settings agree with each other. */
int mode_check_settings(const struct settings *s, struct cay_error *err);
