/*
 * repl.h: `cay shell --python` and its like: cells for a context, as they are typed.
 */
#pragma once

#include "core/error.h"

/* Until the end of standard input. Returns the exit code; -1: an error. */
int repl(const char *sandbox, const char *context, const char *language, struct cay_error *err);
