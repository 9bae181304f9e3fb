/*
 * agent_walk.h: trees in order of name, at bounded memory whatever lies in them.
 */
#pragma once

#include "core/error.h"
#include "engine/agent_impl.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

enum walk_answer { WALK_ON = 0, WALK_SKIP = 1, WALK_STOP = 2 };

struct walk {
	struct agent *a;
	/* Called for each, before what is in it: WALK_SKIP enters no directory. Or -1. */
	int (*visit)(struct walk *w, int dir, const char *name, const struct stat *st,
		     struct cay_error *err);
	const char *cursor; /* begin behind this path; NULL: with the first */
	unsigned depth_max; /* directories on the way down from the top, the top as one */
	bool deeper_fails;  /* else what lies deeper is left out */
	/* The walk's own. */
	unsigned depth;
	char path[AGENT_PATH_MAX + 1]; /* below the top */
};

/* 0; WALK_STOP if it was stopped; -1. Takes dir over. */
int walk_tree(struct walk *w, int dir, struct cay_error *err);

/* Opens a directory for a walk; -1 and errno. */
int walk_open(int dir, const char *name, bool follow);
