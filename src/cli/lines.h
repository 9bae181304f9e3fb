/*
 * lines.h: lines of standard input, as they are typed, without missing a signal.
 */
#pragma once

#include "base/buf.h"
#include "cli/remote.h"

struct lines {
	struct buf pending; /* read, and not asked for yet */
};

enum line_came {
	LINE_CAME,
	LINE_NONE, /* and there will be none */
	LINE_INTERRUPTED,
};

void lines_init(struct lines *l);
void lines_done(struct lines *l);

/*
 * Appends the next line, with its end, to into. Signals are r's; SIGINT is LINE_INTERRUPTED where r
 * has an answer to it. hidden: a terminal does not show what is typed. -1: an error.
 */
int lines_next(struct lines *l, struct remote *r, bool hidden, struct buf *into,
	       struct cay_error *err);
