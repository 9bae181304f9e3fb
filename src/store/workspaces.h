/*
 * workspaces.h: workspaces that have a name, and their snapshots. What is in them is the
 * launcher's to keep, by their ids.
 */
#pragma once

#include "core/id.h"
#include "store/owner.h"
#include "store/store.h"

#include <stdbool.h>
#include <stdint.h>

#define WORKSPACE_NAME_SIZE 65

struct workspace_record {
	char id[ID_SIZE]; /* wsp_… */
	struct owner owner;
	char name[WORKSPACE_NAME_SIZE]; /* the only one of its owner's; of a snapshot: among them */
	char of[ID_SIZE];               /* of a snapshot: the workspace's id; "" else */
	int64_t size;                   /* bytes that it can hold */
	int64_t created_ms, last_used_ms;
};

typedef void store_workspace_fn(void *ctx, const struct workspace_record *w);

/* Committed at once. CAY_E_CONFLICT: the name is taken. */
int store_workspace_put(struct store *s, const struct workspace_record *w, struct cay_error *err);

/* By id, or by the name of one of the viewer's own. CAY_E_NOT_FOUND, also for another's. */
int store_workspace_get(struct store *s, const struct viewer *v, const char *id_or_name,
			struct workspace_record *ret, struct cay_error *err);

/* A snapshot of it, by its name. CAY_E_NOT_FOUND. */
int store_workspace_snapshot(struct store *s, const struct workspace_record *of, const char *name,
			     struct workspace_record *ret, struct cay_error *err);

/* With its snapshots. Committed at once. */
int store_workspace_remove(struct store *s, const char *id, struct cay_error *err);

/* Gathered. */
int store_workspace_touch(struct store *s, const char *id, int64_t now_ms, struct cay_error *err);

/* All that the viewer sees, or the snapshots of one (of; NULL: no snapshots), oldest first. */
int store_workspaces_list(struct store *s, const struct viewer *v, const char *of,
			  store_workspace_fn *fn, void *ctx, struct cay_error *err);

/* How many there are, with snapshots: of the owner, and in all. */
int store_workspaces_count(struct store *s, const struct owner *o, int64_t *ret_own,
			   int64_t *ret_all, struct cay_error *err);
