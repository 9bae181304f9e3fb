/*
 * making.h: islands whose workspace outlives them, from the moment they are asked for
 * until they are guests: an image is made by a child, and one whose last island is just
 * ending has to be waited for. The launcher serves others meanwhile. For service.c alone.
 */
#pragma once

#include "engine/native/guest.h"

/* Its answer comes later: READY or FAILED; or GONE where it is cancelled before. */
int making_start(struct service *s, uint32_t number, const struct plan *p, struct cay_error *err);

/* False: there is no such. */
bool making_cancel(struct service *s, uint32_t number);

void makings_done(struct service *s);

/*
 * copying.c: copies of workspaces, by a child each. The same answers: GONE, also where it is
 * cancelled, or FAILED. names: from and to.
 */
int copying_start(struct service *s, uint32_t number, const char (*names)[ID_SIZE], size_t n,
		  struct cay_error *err);
bool copying_cancel(struct service *s, uint32_t number);
/* Whether one is under way to that name. */
bool copying_to(const struct service *s, const char *name);
void copyings_done(struct service *s);

/* Removes workspaces: these; all but these. */
void making_discard(struct service *s, const char (*names)[ID_SIZE], size_t n);
void making_sweep(struct service *s, const char (*names)[ID_SIZE], size_t n);
