/*
 * files_put.h: files into an island, by its agent: each named, then sent, as there is room.
 */
#pragma once

#include "core/error.h"
#include "session/agent_client.h"
#include "spec/request.h"

#include <stdbool.h>
#include <stddef.h>

/* What an agent may do nothing for. */
#define FILES_IDLE_MS 30000

struct files_put {
	struct agent_call *call; /* of AGENT_TREE_IN, at "/" */
	size_t count;
	/* The nth: its entry, and where its bytes are. */
	void (*nth)(const void *ctx, size_t n, struct agent_file *ret, const char **ret_data);
	const void *ctx;
	/* Ours. */
	size_t next, done; /* which file, and how much of it */
	bool named;        /* its name is out */
};

/* As much as there is room for: call it again when there is. 0, or -1 and err. */
int files_put_send(struct files_put *p, struct cay_error *err);

/* A request's file as an entry. */
struct agent_file files_put_entry(const struct request_file *f);
