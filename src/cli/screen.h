/*
 * screen.h: whether the terminal at stdout shows sixels, and of what size and how many colours. It
 * is asked itself: what it is called says too little, and a multiplexer answers for itself.
 */
#pragma once

#include "base/buf.h"

#include <stdbool.h>

struct screen {
	struct buf *typed; /* what comes meanwhile, and is no answer, is appended: keys */
	bool asked, sixel;
	unsigned width, height, colours; /* of a picture; where sixel */
};

void screen_init(struct screen *s, struct buf *typed);

/*
 * Asks it, the first time; it has a second to answer. False: it doesn't show sixels, doesn't
 * answer, is none, or not ours to ask.
 */
bool screen_ask(struct screen *s);

/* What a terminal says, as far as it has come; the rest is keys. */
struct answers {
	char sequence[64]; /* one that has only begun */
	size_t len;
	bool attributes; /* it has said what it is: answers to what was asked before are there */
	bool sixel;
	unsigned width, height, colours; /* 0: it has not said */
};

/* 0 or -errno: keys is full. */
int answers_take(struct answers *a, const char *bytes, size_t len, struct buf *keys);

/* The end: what has only begun is keys. */
int answers_end(struct answers *a, struct buf *keys);
