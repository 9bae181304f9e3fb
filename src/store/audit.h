/*
 * audit.h: the log of every call that changes something.
 */
#pragma once

#include "store/owner.h"
#include "store/store.h"

#include <stdint.h>

#define AUDIT_TEXT_MAX 512 /* longer ones are cut */

/* Strings are borrowed. */
struct audit_record {
	int64_t id; /* the store's */
	int64_t time_ms;
	const char *request_id;
	struct owner actor;
	const char *peer;      /* "1.2.3.4:5678", "pid 123" */
	const char *method;    /* "POST" */
	const char *path;      /* without a query, where secrets may be */
	const char *operation; /* of the route: "run.create"; "": none was found */
	const char *target;    /* id of what was made or changed; NULL */
	int status;            /* of HTTP */
	const char *code;      /* of the error; NULL */
};

typedef void store_audit_fn(void *ctx, const struct audit_record *r);

/* Gathered. */
int store_audit_add(struct store *s, const struct audit_record *r, struct cay_error *err);

/* What of it; 0 and NULL: all. */
struct audit_filter {
	int64_t since_ms, until_ms; /* from, and before */
	const char *actor;          /* as owner_text() has it */
	const char *operation;
};

/* Latest first; a viewer sees its own calls. */
int store_audit_list(struct store *s, const struct viewer *v, const struct audit_filter *f,
		     struct page *page, store_audit_fn *fn, void *ctx, struct cay_error *err);
