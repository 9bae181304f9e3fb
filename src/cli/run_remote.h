/*
 * run_remote.h: `cay run` by a daemon.
 *
 * One that CAY_HOST names, or that --sandbox needs, is meant: what can't be done there is
 * an error, but for what is of this machine by its nature. One that only happens to listen
 * on the default socket is used where nobody could tell the difference, and everything else
 * is run here as if it were not there: with the caller's own rights to directories, input
 * as it comes, files of any size.
 */
#pragma once

#include "cli/run.h"
#include "core/error.h"

/* 0 and the exit code; 1: it is to be run here; -1. */
int run_remote(struct run_options *q, int *ret_code, struct cay_error *err);
