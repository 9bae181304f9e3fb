/*
 * pipes.h: the three pipes between a caller and a program.
 */
#pragma once

#include "core/error.h"

struct pipes {
	int ours[3];   /* [0] to write input to, [1] and [2] to read output from */
	int theirs[3]; /* become the program's 0, 1, 2 */
};

#define PIPES_NONE ((struct pipes){.ours = {-1, -1, -1}, .theirs = {-1, -1, -1}})

/* Without input the program gets /dev/null. Our ends do not block. */
int pipes_open(struct pipes *p, int with_input, struct cay_error *err);
void pipes_close_theirs(struct pipes *p);
void pipes_done(struct pipes *p);
