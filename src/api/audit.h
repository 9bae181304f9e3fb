/*
 * audit.h: the log of every call that changes something, and GET /v1/audit.
 */
#pragma once

#include "api/router.h"

struct exchange;

extern const struct route route_audit_list;

/* From the server's finished hook: notes the call, if it is one to be noted. */
void audit_note(struct exchange *x);
