/*
 * repl.h: `cay shell --python` and its like: cells for a context, as they are typed.
 */
#pragma once

#include "cli/shell.h"

/* Until the end of standard input. Returns the exit code; -1: an error. */
int repl(const struct shell_ask *ask, struct cay_error *err);
