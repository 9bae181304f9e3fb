/*
 * bench_spawn.h: starts a program, waits for its end, and says how long it took.
 */
#pragma once

#include "base/buf.h"
#include "base/strv.h"
#include "core/error.h"

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

struct spawner {
	int signals;     /* of cli_catch_signals() */
	sigset_t before; /* the mask that programs get */
	int cancelled;   /* the signal that came, after which nothing is started; 0 */
};

struct spawn {
	const struct strv *argv; /* argv[0] is looked for in PATH */
	const struct strv *env;  /* empty: ours */
	const char *dir;
	uint64_t timeout_ms;
	struct buf *output; /* gets both streams, as far as it goes; NULL: they are thrown away */
};

struct spawned {
	double ms; /* from before its start to after its end */
	int status;
	bool stopped; /* by the time-out, or because a signal came */
};

/*
 * Waits for the end of it. Its input is empty. It is in a process group of its
 * own, which is ended by SIGTERM, then SIGKILL, when it is stopped.
 */
int spawn_wait(struct spawner *s, const struct spawn *what, struct spawned *ret,
	       struct cay_error *err);
