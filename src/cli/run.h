/*
 * run.h: what `cay run` was asked for.
 */
#pragma once

#include "spec/spec.h"

#include <stdbool.h>

struct run_options {
	struct spec spec;    /* first: options that other verbs have too set it */
	const char *code;    /* -c */
	const char *scope;   /* NULL: none */
	const char *sandbox; /* NULL: on an island of its own */
	const char *wait;    /* NULL: it was not said */
	bool code_from_stdin;
	bool direct;           /* that engine was asked for by name */
	char auto_reason[640]; /* why none but this engine will do, where nobody named it; or "" */
	bool json, dry_run, output_limited, watch;
	bool diff, apply; /* of a workspace that is an overlay: show changes, bring them back */
};
