/*
 * run_watch.h: `cay run --watch`: the same run again after each save.
 */
#pragma once

#include "core/error.h"
#include "spec/spec.h"

#include <signal.h>

/* Cancels a run that a newer save made pointless: nothing needs to be said about it. */
#define WATCH_CANCEL SIGTERM

/*
 * Has run() run in a child of its own, whose exit code it returns, now and after
 * each save of the spec's FILE or, while none is running, of a --put. A run that
 * is still going on then is cancelled by WATCH_CANCEL. Returns when a signal came
 * and the child is gone, 128 + n; or -1.
 */
int run_watch(const struct spec *spec, int (*run)(void *ctx), void *ctx, struct cay_error *err);
