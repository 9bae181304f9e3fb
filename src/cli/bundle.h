/*
 * bundle.h: what a cell shows, a MIME bundle, for a person: a picture, or else text.
 */
#pragma once

#include "cli/picture.h"
#include "cli/remote_output.h"

/* Of a cell. Whoever wrote it can make any number of them; a person looks at a few. */
#define BUNDLE_PICTURES_MAX 8

/* All that one cell shows. */
struct bundles {
	struct remote_output *out;
	struct screen *screen; /* for sixels; or NULL */
	const char *dir;       /* asked for; NULL: not */
	int dir_fd;            /* -1: pictures are not saved */
	unsigned taken, beyond, false_claims, unsaved[PICTURE_TYPES];
};

/* dir: pictures are saved there, and not shown; NULL: as bundles_show() says. */
int bundles_init(struct bundles *b, struct remote_output *o, struct screen *screen, const char *dir,
		 struct cay_error *err);
void bundles_done(struct bundles *b);

/*
 * A picture appears in a terminal that can show it, and is a file in the current directory in one
 * that can't, of a name that nothing had, which is told on stderr. Where stdout is no terminal
 * nobody may be there to see what a stranger's program puts into that directory: it is left out.
 * Text goes to stdout. As remote_output_pass().
 */
int bundles_show(struct bundles *b, const struct json *bundle, struct cay_error *err);

/* The end of the cell: says which pictures there is nothing of. */
void bundles_finish(const struct bundles *b);
