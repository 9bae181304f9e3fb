/*
 * run_changes.h: `cay run --diff` and `--apply`: what one run changed in its overlay.
 */
#pragma once

#include "cli/run.h"
#include "core/result.h"
#include "engine/engine.h"
#include "settings/settings.h"

struct run_changes {
	const struct run_options *asked; /* NULL: none of it */
	int top;                         /* where they go; -1 */
	int64_t since_ms;
	int upper; /* while they are looked at */
};

#define RUN_CHANGES_NONE ((struct run_changes){.top = -1, .upper = -1})

/* What can't be done fails before anything runs. */
int run_changes_init(struct run_changes *c, const struct run_options *q,
		     const struct settings *settings, struct cay_error *err);
void run_changes_done(struct run_changes *c);

/* When the program has ended; they come back only if it succeeded. */
int run_changes_out(struct run_changes *c, const struct island_files *files,
		    const struct result *result, struct cay_error *err);
