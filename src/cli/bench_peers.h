/*
 * bench_peers.h: who is compared by `cay bench`, how each is called, and why one
 * that is not there is not.
 */
#pragma once

#include "cli/bench_spawn.h"
#include "settings/settings.h"
#include "spec/runtime.h"
#include "spec/spec.h"

#include <limits.h>

enum { PEER_BARE, PEER_CAY, PEER_BUBBLEWRAP, PEER_PODMAN, PEER_DOCKER, PEERS };

/* What each of them runs. */
struct snippet {
	const struct spec *spec; /* code or a file, and the language; no arguments */
	const struct settings *settings;
	const struct runtime *runtime;
	char file[PATH_MAX]; /* the full path of the file; "": code */
};

struct peer {
	const char *name;
	char what[200];    /* what it does around the program */
	char why_not[200]; /* "": it takes part */
	struct strv argv, env;
	const char *dir;
	struct strv cleanup; /* a command for when it was stopped; may be empty */
};

/*
 * Fills all, having run each once. Nothing is pulled, no daemon is started. A
 * signal in between leaves s->cancelled set.
 */
int peers_find(struct spawner *s, const struct snippet *snippet, struct peer ret[PEERS],
	       struct cay_error *err);
void peers_done(struct peer peers[PEERS]);

/* One run. A peer that is stopped is cleaned up after. */
int peer_run(struct spawner *s, const struct peer *p, uint64_t timeout_ms, struct buf *output,
	     struct spawned *ret, struct cay_error *err);
