/*
 * image_program.h: cay-image, which writes to the store, started from here.
 */
#pragma once

#include "core/error.h"

#include <stdbool.h>

/* Becomes cay-image; argv[0] is its own. Returns only where it can't. */
int image_program_become(char *const argv[], struct cay_error *err);

/*
 * Pulls an image and waits for it. What it says goes to standard error; where quiet, nothing
 * does, and the error is what it would have said.
 */
int image_program_pull(const char *reference, bool quiet, struct cay_error *err);
