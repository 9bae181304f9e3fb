/*
 * shell.h: what `cay shell` is asked for. The verb reads it, to say at once what is wrong;
 * cay-shell, which has the WebSocket library that cay itself does without, reads it again.
 */
#pragma once

#include "base/buf.h"
#include "core/error.h"

#include <stdbool.h>

struct shell_ask {
	const char *sandbox;
	const char *terminal; /* NULL: a new one */
	struct buf command;   /* a line for sh; "": a shell */
	bool python, node, bash;
	const char *context;  /* of the interpreter, if it is one of these; NULL: "main" */
	const char *pictures; /* where it saves them; NULL: see bundle.h */
};

void shell_ask_done(struct shell_ask *a);

/* Returns 1 when help was asked for and printed, else 0 or -1. */
int shell_parse(int argc, char **argv, struct shell_ask *ret, struct cay_error *err);
