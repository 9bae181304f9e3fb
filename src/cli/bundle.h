/*
 * bundle.h: what a cell shows, a MIME bundle, for a person: a picture, or else text.
 */
#pragma once

#include "cli/remote_output.h"

/*
 * A picture appears in a terminal that can show it; else it is a file in the current directory, of
 * a name that nothing had, which is told on stderr. Text goes to stdout. As remote_output_pass().
 */
int bundle_show(struct remote_output *o, const struct json *bundle, struct cay_error *err);
