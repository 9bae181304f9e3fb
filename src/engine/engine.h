/*
 * engine.h: for callers of engines. An engine carries a plan out and says how
 * it went; a program's own failure is a result, never an error.
 */
#pragma once

#include "core/error.h"
#include "core/event.h"
#include "core/result.h"
#include "policy/mounts.h"
#include "policy/plan.h"

#include <stdbool.h>
#include <sys/types.h>

/* Where an island's files can be reached from outside, before and after the program. */
struct island_files {
	int workspace; /* directory fds; -1 where there is none */
	int tmp;
	bool read_only; /* the workspace is a host directory that may only be read */
	/* Of a workspace that is a layer: changes.h. */
	bool overlay;
	int lower, upper;
	bool as_owner; /* we are root, and do what we do there as the directory's owner */
};

typedef int island_files_fn(void *ctx, const struct island_files *files, struct cay_error *err);

struct run {
	const struct plan *plan;
	const struct mount_rules *rules;
	const struct settings *settings; /* for what carries its connections */
	/* An image is being brought, in words for people; "": it is there. NULL: nobody looks. */
	void (*pulling)(void *ctx, const char *words);
	void *pulling_ctx;
	int stdin_fd;  /* the program's input is read from here; -1: it has none */
	int cancel_fd; /* a signalfd: a signal there ends the run; -1 */
	struct sink sink;
	void *files_ctx;
	island_files_fn *files_in;  /* the island stands, the program has not begun; or NULL */
	island_files_fn *files_out; /* the program and all it started are gone; or NULL */
};

/* What an engine is, for all who only speak of it. */
struct engine {
	enum spec_engine id;
	bool sandboxed; /* else nothing is enforced */
	/* For a dry run. What it enforces, by name; NULL behind the last. */
	const char *(*enforced)(unsigned n);
	/* What every program is denied, in words, beside the network; ends with NULL. */
	const char *const *denied;
};

extern const struct engine engine_native;
extern const struct engine engine_direct;
extern const struct engine engine_docker;
extern const struct engine engine_podman;

/* By ENGINE_AUTO the one that needs nothing. */
const struct engine *engine_get(enum spec_engine id);

/* Says in a result by which engine it came about, and whether that is a sandbox. */
void engine_describe(const struct engine *e, struct result *ret);

/*
 * One run, in the caller's process. ret was emptied by the caller, who frees it by
 * result_done() also on failure.
 */
int engine_run(const struct engine *e, const struct run *run, struct result *ret,
	       struct cay_error *err);

/* The engines' own, for engine_run(): fill status, message, exit, usage, image and isolation. */
typedef int engine_run_fn(const struct run *run, struct result *ret, struct cay_error *err);

engine_run_fn native_run;
engine_run_fn direct_run;
engine_run_fn container_run;
