/*
 * keeper.h: the store of a daemon that runs: opened and recovered at the start, committed
 * a moment after something was gathered, pruned now and then.
 */
#pragma once

#include "core/error.h"

struct api;
struct keeper;

/* Fills in the api's store, keeper and quota. */
int keeper_start(struct api *api, struct cay_error *err);
void keeper_stop(struct api *api);

/* Something may have been gathered: it is committed within KEEPER_FLUSH_MS. */
#define KEEPER_FLUSH_MS 100
void keeper_wrote(struct api *api);

/* A result was put: those that are too much by it go. */
void keeper_trim(struct api *api);
