/*
 * logs.h: GET /v1/sandboxes/{id}/logs: the last of what commands of a sandbox printed.
 *
 * {"logs":[{"run","stream","time","text"}]}, with base64 in the place of text for what is
 * no UTF-8; time is in milliseconds since 1970. follow=1: server-sent events stdout and
 * stderr, with what is there first and then what comes; at last end, when the sandbox
 * ends, or lost: this follower was too slow and has missed something. run=ID: of that
 * run alone.
 */
#pragma once

#include "api/router.h"

#define LOG_FOLLOWERS_MAX 16

struct sandboxes;

/* The daemon is about to end: nobody follows any more. */
void logs_leave(struct sandboxes *all);

extern const struct route route_logs;
