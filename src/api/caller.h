/*
 * caller.h: who a request is from. By the unix socket it is the kernel's word: root and
 * whoever started the daemon are operators, and see everything; another user, who can
 * connect only where an operator opened the socket, has what is that user's own. By TCP
 * it is whose key the request shows. Who shows a key at the socket is that key's holder,
 * too, and no more.
 */
#pragma once

#include "core/error.h"
#include "policy/bounds.h"
#include "settings/settings.h"
#include "store/keys.h"
#include "store/owner.h"

#include <stdbool.h>

struct exchange;

struct caller {
	struct viewer viewer;
	char name[KEY_NAME_MAX + 1]; /* of the key; "": a unix peer */
	struct key_quotas quotas;
	struct bounds bounds;
	bool idempotent; /* this request's key waits for its answer (idempotency.h) */
	/* Of a body that is streamed, where it has such a key; and whether it is whole. */
	struct hasher *body;
	bool body_whole;
};

/* The server's authorize hook: sets the exchange's caller. CAY_E_UNAUTHORIZED. */
int caller_authorize(struct exchange *x, struct cay_error *err);

/* Never NULL in a handler of a route that is not public. */
struct caller *caller_of(const struct exchange *x);

/* From the server's finished hook. */
void caller_release(struct exchange *x);

/* CAY_E_POLICY, answered, unless the caller is an operator. Whether it is. */
bool caller_is_operator(struct exchange *x);

/* The operator's settings with the caller's bounds laid over them; borrows from both. */
struct settings caller_settings(const struct caller *c, const struct settings *s);
