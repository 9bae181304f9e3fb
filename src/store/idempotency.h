/*
 * idempotency.h: the Idempotency-Key of HTTP: the same call again gets the answer
 * that the first one got, for a day, and does nothing. Gathered: after a crash a
 * call of the last moment may be done again.
 */
#pragma once

#include "store/key.h"
#include "store/owner.h"
#include "store/store.h"

#include <stddef.h>
#include <stdint.h>

#define IDEMPOTENCY_KEY_MAX 255
#define IDEMPOTENCY_MS      (24ll * 3600 * 1000)

/* Of a longer answer it is only kept that there was one. */
#define IDEMPOTENCY_BODY_MAX (256u << 10)

/* Of one owner, and the answers of these together; the oldest go first. */
#define IDEMPOTENCY_OWNER_MAX   1000
#define IDEMPOTENCY_OWNER_BYTES (16u << 20)

enum idempotency {
	IDEMPOTENCY_NEW,     /* go on, and say _done() or _forget() */
	IDEMPOTENCY_DONE,    /* here is the answer */
	IDEMPOTENCY_PENDING, /* the first one is not through yet */
	IDEMPOTENCY_OTHER,   /* the key was used for another request */
};

struct idempotency_answer {
	int status; /* of HTTP */
	char *body; /* NULL: it was too long to keep; the caller frees it */
	size_t len;
};

/* request is the hash of method, path and body. *ret_answer is filled for IDEMPOTENCY_DONE. */
int store_idempotency_begin(struct store *s, const struct owner *o, const char *key,
			    const struct hash *request, int64_t now_ms, enum idempotency *ret,
			    struct idempotency_answer *ret_answer, struct cay_error *err);

int store_idempotency_done(struct store *s, const struct owner *o, const char *key, int status,
			   const char *body, size_t len, struct cay_error *err);

/* Where there was no answer to repeat: the caller went away, or was told to try again. */
int store_idempotency_forget(struct store *s, const struct owner *o, const char *key,
			     struct cay_error *err);
