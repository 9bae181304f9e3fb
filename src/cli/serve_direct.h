/*
 * serve_direct.h: what the launcher must know to run programs without a sandbox.
 */
#pragma once

#include "core/error.h"
#include "engine/native/bare_user.h"
#include "settings/settings.h"

/* Looks the settings' direct_user up. api: the uid that the api has. */
int serve_direct_rules(const struct settings *s, const char *socket, uid_t api,
		       struct bare_rules *ret, struct cay_error *err);
