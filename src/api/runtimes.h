/*
 * runtimes.h: GET /v1/runtimes: the languages there are, as `cay runtimes --json` has it.
 */
#pragma once

#include "api/router.h"

extern const struct route route_runtime_list;
