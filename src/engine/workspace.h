/*
 * workspace.h: where programs have their files that run without a sandbox: below the
 * temporary directory, in one of ours that is named after the process that made it.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

struct workspace {
	char top[256]; /* ours, also where what is in it is another's; "": there is none */
	char home[PATH_MAX];
	char build[300]; /* for what compilers make; "": there is none */
};

/*
 * For a user, who may be another one: what is below top is that user's alone. 0 or
 * -errno; workspace_remove() in any case.
 */
int workspace_make(struct workspace *w, uid_t uid, gid_t gid, bool build);

/* With all that is in it, which is removed with its owner's rights. */
void workspace_remove(struct workspace *w);

/* Removes those whose maker is gone and which belong to us; returns how many. */
int workspace_sweep(void);
