/*
 * cell.h: a cell under way in a context, as far as it has to be talked to: what it asks for is
 * answered at the terminal, by a connection of its own, as the run has the other.
 */
#pragma once

#include "cli/lines.h"
#include "cli/screen.h"

#include <stdbool.h>

struct json;

struct cell_desk {
	struct remote *remote; /* the run's: its signals */
	const char *sandbox, *context;
	struct lines lines;
	struct screen screen;
};

void cell_desk_init(struct cell_desk *d, const char *sandbox, const char *context);
void cell_desk_done(struct cell_desk *d);

/* {"prompt":…,"password":…}: asks, and answers it. ctx is a desk. */
int cell_answer(void *ctx, const struct json *asked, struct cay_error *err);

/* Has the cell interrupted. That there is none, or none any more, is no error. */
int cell_interrupt(const struct cell_desk *d, struct cay_error *err);

/* "/contexts/NAME" and what follows it, behind what path has. */
int cell_path(struct buf *path, const char *context, const char *rest, struct cay_error *err);
