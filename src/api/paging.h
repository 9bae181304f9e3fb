/*
 * paging.h: the query of a list: ?limit=N&cursor=C, and in the answer "cursor": the cursor
 * of the page behind it, or null.
 */
#pragma once

#include "core/error.h"
#include "store/store.h"

struct exchange;
struct json;

/* CAY_E_INVALID for a limit that is none. */
int paging_read(const struct exchange *x, struct page *ret, struct cay_error *err);

/* {"NAME":[…],"cursor":…}; takes the list over, and answers. */
void paging_answer(struct exchange *x, const char *name, struct json *list,
		   const struct page *next);

/* A time in ms since 1970, or 0 where the query has none. */
int paging_time(const struct exchange *x, const char *name, int64_t *ret, struct cay_error *err);
