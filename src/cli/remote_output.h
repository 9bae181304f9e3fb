/*
 * remote_output.h: what programs print, out of a daemon's JSON to our own stdout and stderr.
 */
#pragma once

#include "cli/output.h"
#include "cli/remote.h"

struct remote_output {
	struct remote *remote;
	struct output out;
	struct sink sink;
	bool unread; /* nobody reads it any more */
};

/* limit_bytes of each stream; 0: none. */
void remote_output_init(struct remote_output *o, struct remote *r, uint64_t limit_bytes);
void remote_output_done(struct remote_output *o);

/* {"text":…} or {"base64":…}. 0, 1: there is no use in going on, or -1. */
int remote_output_pass(struct remote_output *o, enum stream which, const struct json *data,
		       struct cay_error *err);

/* Text that is no event of a stream's. As remote_output_pass(). */
int remote_output_text(struct remote_output *o, enum stream which, const char *text, size_t len,
		       struct cay_error *err);

/* The end: what was still held back. */
void remote_output_finish(struct remote_output *o);

/* The stream that is called so, or -1. */
int remote_output_stream(const char *name);
