/*
 * bars.h: how a pull is going, for whoever waits: on a terminal one line that is written over, else
 * a few plain ones, both on stderr; or events of JSON on stdout. What is on this machine already
 * (load, import) has the line alone.
 */
#pragma once

#include "image/progress.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum bars_phase { BARS_WAITING, BARS_DOWNLOADING, BARS_UNPACKING, BARS_DONE };

struct bar {
	const char *digest; /* borrowed */
	uint64_t total, done;
	enum bars_phase phase;
};

struct bars {
	const char *title; /* borrowed */
	bool json, terminal, drawn;
	bool local;       /* nothing is downloaded */
	size_t at;        /* of those: which one bars_progress() is about */
	struct bar *bars; /* the caller's */
	size_t n;
	uint64_t told_ns; /* when last */
	uint64_t came;    /* bytes that were downloaded since it began */
	uint64_t since_ns;
};

void bars_begin(struct bars *b, const char *title, struct bar *list, size_t n, bool json);

/* The same for what is here; total 0: not known. */
void bars_begin_local(struct bars *b, const char *title, struct bar *list, size_t n, bool json);
struct progress bars_progress(struct bars *b);

/* One has come so far; it is told when it is time. */
void bars_set(struct bars *b, size_t i, enum bars_phase phase, uint64_t done);

/* Leaves the terminal as it was. */
void bars_end(struct bars *b);
