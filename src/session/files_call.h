/*
 * files_call.h: starts an operation on the files of a live island: the agent as a
 * command there, and its client here.
 */
#pragma once

#include "policy/plan.h"
#include "session/agent_client.h"
#include "session/islands.h"

/*
 * plan: the island's own, or any of its commands'. *ret_command is the agent's number:
 * what the launcher reports of it says why it could not be started, and is of no
 * interest else. NULL and err: nothing was begun.
 */
struct agent_call *files_call(struct loop *loop, struct island_ref *ref, const struct plan *plan,
			      const struct agent_ask *ask, const struct agent_sink *sink, void *ctx,
			      uint32_t *ret_command, struct cay_error *err);
