/*
 * dry.h: what a plan would do, in words, for `cay run --dry-run` and the API alike.
 */
#pragma once

#include "core/decision.h"
#include "engine/engine.h"

struct json;

/* By what it would be carried out. */
struct dry_engine {
	const struct engine *engine;
	const struct decision *decision;
	const char *image; /* what an island would be made of, by name */
	const char *user;  /* not sandboxed: whom it would run as; "": not known, or it has one */
};

/*
 * {"dry_run":{…}}; the caller frees it. runtime may be NULL. mounts is taken over: what
 * came of judging them.
 */
struct json *dry_json(const struct plan *p, const struct runtime *runtime,
		      const struct dry_engine *by, struct json *mounts);

/* What of the network it is denied, in words; NULL: nothing. */
const char *dry_network_denied(const struct plan *p, const struct engine *engine);

/* One of mounts. */
struct json *dry_mount_json(const char *source, const char *target, enum access access,
			    const char *reason);
