/*
 * sandboxes.h: the sandboxes there are, and for a while those there were.
 */
#pragma once

#include "core/id.h"
#include "store/owner.h"
#include "store/store.h"

#include <stdbool.h>
#include <stdint.h>

enum sandbox_state {
	SANDBOX_LIVE,
	SANDBOX_PAUSED,
	SANDBOX_STOPPED, /* a persistent one without an island: can be started again */
	SANDBOX_LOST,    /* the daemon went away, and it with it */
	SANDBOX_GONE,    /* deleted, expired, idle: the reason says which */
	SANDBOX_STATES
};

const char *sandbox_state_name(enum sandbox_state state);

/* Live, paused or stopped: its name is taken. */
bool sandbox_is_alive(enum sandbox_state state);

/* Strings are borrowed. */
struct sandbox_record {
	char id[ID_SIZE]; /* sbx_… */
	struct owner owner;
	const char *name;   /* NULL: none; the only one of its owner's while it is alive */
	const char *spec;   /* JSON: what was asked for */
	const char *labels; /* JSON */
	enum sandbox_state state;
	const char *reason; /* why it is lost or gone; NULL */
	bool persistent;
	int64_t created_ms, last_used_ms;
	int64_t expires_ms; /* 0: never */
	int64_t idle_timeout_ms;
	int64_t ended_ms;
	const char *workspace; /* where it is kept, if it is; NULL */
};

typedef void store_sandbox_fn(void *ctx, const struct sandbox_record *r);

/*
 * Makes it known, or changes all but owner and time of creation. Committed at
 * once. CAY_E_CONFLICT: another one alive of the same owner has the name.
 */
int store_sandbox_put(struct store *s, const struct sandbox_record *r, struct cay_error *err);

/* Committed at once. Nothing happens to one that is not known or has ended. */
int store_sandbox_set_state(struct store *s, const char *id, enum sandbox_state state,
			    const char *reason, int64_t now_ms, struct cay_error *err);

/* Gathered. */
int store_sandbox_touch(struct store *s, const char *id, int64_t now_ms, struct cay_error *err);

/* By id, or by the name of one that is alive and the viewer's own. CAY_E_NOT_FOUND, also for
 * another's. */
int store_sandbox_get(struct store *s, const struct viewer *v, const char *id_or_name,
		      store_sandbox_fn *fn, void *ctx, struct cay_error *err);

/* Latest first. */
int store_sandboxes_list(struct store *s, const struct viewer *v, bool ended_too, struct page *page,
			 store_sandbox_fn *fn, void *ctx, struct cay_error *err);
