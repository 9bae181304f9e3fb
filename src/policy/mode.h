/*
 * mode.h: whether a run is sandboxed. By what the operator says and what is asked for,
 * never by what the code looks like. Pure.
 */
#pragma once

#include "core/error.h"
#include "policy/bounds.h"
#include "settings/settings.h"
#include "spec/request.h"
#include "spec/spec.h"

#include <stdbool.h>

struct mode_question {
	enum mode allowed; /* the operator's word */
	enum mode asked;   /* the request's own; MODE_UNSAID */
	enum spec_engine engine;
	bool trusted;    /* the request says so */
	bool shell;      /* it is for a shell */
	bool network;    /* and gets a network */
	bool key_direct; /* the key's bounds have the engine direct */
};

struct mode_answer {
	enum spec_engine engine; /* ENGINE_NATIVE or ENGINE_DIRECT */
	const char *reason;      /* static, for the result; "" where there is nothing to say */
};

/*
 * A request can only ask for more of a sandbox than the operator does: less is
 * CAY_E_POLICY. What it does not ask for by name it gets as the mode says.
 */
int mode_decide(const struct mode_question *q, struct mode_answer *ret, struct cay_error *err);

/* The question that a request of a caller with these bounds is; s may be a copy for the caller. */
struct mode_question mode_question(const struct settings *s, const struct bounds *b,
				   const struct spec *spec);

/*
 * Whether all that is asked for can be had without a sandbox; else CAY_E_UNSUPPORTED that
 * names the field.
 */
int mode_check_direct(const struct request_body *q, struct cay_error *err);

/* Whether the settings agree with each other. */
int mode_check_settings(const struct settings *s, struct cay_error *err);
