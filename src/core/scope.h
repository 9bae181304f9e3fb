/*
 * scope.h: for whom a sandbox is: "session:ID", "agent:ID" or "shared". Requests with the same
 * scope of the same owner have the same sandbox.
 */
#pragma once

#include "core/error.h"

#define SCOPE_ID_MAX 128
#define SCOPE_SIZE   (sizeof("session:") + SCOPE_ID_MAX)

enum scope_kind { SCOPE_SESSION, SCOPE_AGENT, SCOPE_SHARED, SCOPES };

const char *scope_kind_name(enum scope_kind k);

/* CAY_E_INVALID says what can be. */
int scope_parse(const char *text, enum scope_kind *ret, struct cay_error *err);
