/*
 * api.h: what the handlers of one daemon share.
 */
#pragma once

#include "base/loop.h"
#include "session/islands.h"
#include "settings/settings.h"

#include <stdbool.h>

struct runs;
struct server;

struct api {
	struct loop *loop;
	struct settings settings;
	struct islands *islands;
	struct server *server;
	struct runs *runs;
	bool draining; /* no new work is taken */
};

struct exchange;

/* Of the exchange's server. */
struct api *api_of(const struct exchange *x);

/* Every operation there is; ends with a NULL. */
extern const struct route *const api_routes[];
