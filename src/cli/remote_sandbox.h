/*
 * remote_sandbox.h: what the verbs for live sandboxes share.
 */
#pragma once

#include "cli/cli.h"
#include "cli/remote.h"

#define SANDBOX_WORDS_MAX 256

/* Fails: no sandbox was named. */
int remote_sandbox_which(struct cay_error *err);

/* Asks about the sandbox: "/v1/sandboxes/ID" and rest. *ret may be NULL after it. */
int remote_sandbox_ask(struct remote *r, const char *method, const char *id, const char *rest,
		       const struct json *body, struct json **ret, struct cay_error *err);

/*
 * A whole list, page by page: path is that of its first page, name the array's. *ret is
 * {"NAME":[…]}, the caller's.
 */
int remote_list(struct remote *r, const char *path, const char *name, struct json **ret,
		struct cay_error *err);

/*
 * A verb that does the same to each sandbox it is given: what went well is named on stdout,
 * what did not on stderr. fn: 0, 1: nothing to name, or -1. Returns the exit code.
 */
typedef int remote_sandbox_fn(struct remote *r, const char *id, const void *ctx,
			      struct cay_error *err);
int remote_sandbox_verb(const struct verb *v, int argc, char **argv, remote_sandbox_fn *fn,
			void *ctx);
