/*
 * removal.h: workspaces of programs that have ended, on their way out: each by a process of
 * its own, because a tree may be large and the launcher has others to serve.
 */
#pragma once

#include "engine/workspace.h"

struct service;

/* Takes the workspace over. What can't be begun is done at once. */
void removal_start(struct service *s, struct workspace *w);

/* Waits for those under way: whoever sweeps after us would have no less to do. */
void removals_done(struct service *s);
