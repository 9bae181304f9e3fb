/*
 * openapi.h: GET /openapi.json: the API, described (api/openapi.yaml).
 */
#pragma once

#include "api/router.h"

extern const struct route route_openapi;
