/*
 * remote_run.h: a program that a daemon runs, with the output and the exit code that it
 * would have without one.
 */
#pragma once

#include "cli/remote.h"

#include <stdint.h>

struct screen;

struct remote_run {
	struct remote *remote;
	const char *path; /* to post to */
	const struct json *body;
	bool json;             /* the result on stdout; else output as it comes */
	uint64_t output_limit; /* of what passes through; 0: none */
	const char *pictures;  /* the directory where a cell's are saved; NULL: see bundle.h */
	struct screen *screen; /* where they may appear; NULL: by what variables say */
	bool quiet; /* one of many: that it failed is not told in words, as its output says why,
		     * nor which limits are not enforced */
	/* input() of a cell waits: has to see to an answer. NULL: it waits in vain. */
	int (*input)(void *ctx, const struct json *asked, struct cay_error *err);
	/* Has the result before anything is said of it; NULL. */
	int (*result)(void *ctx, const struct json *result, struct cay_error *err);
	void *ctx;
};

/* Returns the exit code; -1: an error of ours, or the daemon's. */
int remote_run(const struct remote_run *q, struct cay_error *err);
