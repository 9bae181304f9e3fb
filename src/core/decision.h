/*
 * decision.h: what policy decided about a run, and why, as results and dry runs say it.
 */
#pragma once

#include "core/scope.h"

#include <stdbool.h>

#define DECISION_WHY_SIZE 240

/* A plain value. */
struct decision {
	char mode[16]; /* that was in force: the stricter of the operator's and the request's */
	char tier[16]; /* the request's, else the key's; "": none */
	char scope[SCOPE_SIZE]; /* "": none */
	char why[DECISION_WHY_SIZE];
	bool notable; /* it is other than that everything is sandboxed: the engine's reason, too */
};

/* Why the engine is the one it is; "" where there is nothing to say. */
const char *decision_reason(const struct decision *d);

struct json;

/* {"mode":…,"tier":…,"scope":…,"why":…}; the caller frees it. */
struct json *decision_json(const struct decision *d);
