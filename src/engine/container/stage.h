/*
 * stage.h: the files of a one-shot run in a container: what is put is laid out in a directory of
 * ours and sent in; what the program left is brought out to one, and looked at there. By the files
 * agent (agent_wire.h), whose every word is checked: it is user code's equal.
 */
#pragma once

#include "core/error.h"

#include <stdint.h>

struct stage {
	char top[64]; /* "": there is none */
	int top_fd, workspace, tmp;
};

#define STAGE_NONE ((struct stage){.top_fd = -1, .workspace = -1, .tmp = -1})

/* Two empty directories, which nobody else can enter. */
int stage_make(struct stage *s, struct cay_error *err);
void stage_remove(struct stage *s);

/*
 * All that is in dir to path in there; and the other way round, files and directories alone, at
 * most max bytes of them. to, from: the agent's, which block; they stay the caller's, but that to
 * is closed in the end.
 */
int stage_in(int dir, const char *path, int *to, int from, struct cay_error *err);
int stage_out(int dir, const char *path, uint64_t max, int *to, int from, struct cay_error *err);
