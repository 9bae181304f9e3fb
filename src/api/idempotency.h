/*
 * idempotency.h: Idempotency-Key on every POST: the same key with the same request gets
 * the answer that the first one got, for a day (store/idempotency.h). Handlers need not
 * know: the server calls these around them.
 *
 * Kept are answers that mean the request was dealt with: not those that say "try again"
 * (429, 5xx), nor one that nobody waited for. An answer in pieces can't be kept, and the
 * header is refused where there would be one. A body that is streamed is compared at its
 * end, by a hash that is kept in front of the answer.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct exchange;

/* The server's before hook. False: it was answered. */
bool idempotency_begin(struct exchange *x);

/* The server's piece hook. */
void idempotency_piece(struct exchange *x, const char *data, size_t len);

/* From the server's finished hook. */
void idempotency_end(struct exchange *x);
