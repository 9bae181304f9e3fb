/*
 * idempotency.h: Idempotency-Key on every POST: the same key with the same request gets
 * the answer that the first one got, for a day (store/idempotency.h). Handlers need not
 * know: the server calls these around them.
 *
 * Kept are answers that mean the request was dealt with: not those that say "try again"
 * (429, 5xx), nor one that nobody waited for. An answer in pieces can't be kept, and the
 * header is refused where there would be one. A body that is streamed is not compared, only
 * its length.
 */
#pragma once

#include <stdbool.h>

struct exchange;

/* The server's before hook. False: it was answered. */
bool idempotency_begin(struct exchange *x);

/* From the server's finished hook. */
void idempotency_end(struct exchange *x);
