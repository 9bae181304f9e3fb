/*
 * dry.h: what a plan would do, in words, for `cay run --dry-run` and the API alike.
 */
#pragma once

#include "policy/plan.h"

#include <stddef.h>

struct json;

/* What every island is denied; --dry-run and the man page say the same. */
extern const char *const dry_denied[];
extern const size_t n_dry_denied;

struct dry_engine {
	const char *name;
	const char *reason; /* "": there is none */
	const char
		*user;  /* without a sandbox: whom it would run as; "": not known, or it has one */
	bool sandboxed; /* the native engine; else nothing is enforced */
};

/*
 * {"dry_run":{…}}; the caller frees it. runtime may be NULL. mounts is taken over: what
 * came of judging them.
 */
struct json *dry_json(const struct plan *p, const struct runtime *runtime,
		      const struct dry_engine *engine, struct json *mounts);

/* One of mounts. */
struct json *dry_mount_json(const char *source, const char *target, enum access access,
			    const char *reason);
