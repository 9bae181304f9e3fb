/*
 * health.h: GET /v1/health, for whoever wants to know whether we live.
 */
#pragma once

#include "api/router.h"

extern const struct route route_health;
