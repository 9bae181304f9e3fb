/*
 * keys.h: API keys: made, listed and revoked, by operators.
 */
#pragma once

#include "api/router.h"

extern const struct route route_key_create, route_key_list, route_key_revoke;
