/*
 * output.h: where the output of `cay run` goes: through to our own stdout and
 * stderr as it comes, or into a result.
 */
#pragma once

#include "base/buf.h"
#include "base/text.h"
#include "core/capture.h"
#include "core/event.h"

#include <stdbool.h>
#include <stdint.h>

struct output_stream {
	int fd;
	bool filter; /* a terminal: neutralise what is more than text and colour */
	struct text_filter state;
	struct buf ready; /* filtered, not written yet */
	size_t written;   /* of ready */
	uint64_t passed;  /* bytes of the program that went through */
	int error;        /* why nothing can be written any more; 0 */
};

struct output {
	bool capture;   /* into the result; else through */
	uint64_t limit; /* of each stream; 0: none */
	struct capture kept[STREAMS];
	struct capture compiler; /* what it said, while kept is the program's */
	struct output_stream through[STREAMS];
};

void output_init(struct output *o, bool capture, uint64_t limit_bytes);
void output_done(struct output *o);

/* What was kept until now was the compiler's. */
void output_compiled(struct output *o);

struct sink output_sink(struct output *o);

/* All that went in until now is written, or can't be. */
void output_settle(struct output *o);

/* The end of the stream: what a filter or a limit still held back. */
void output_finish(struct output *o);

/* Whether output was lost for another reason than a reader that left; says so on stderr. */
bool output_failed(const struct output *o);
