/*
 * events.h: GET /v1/events: what begins and ends, as it happens, by server-sent events.
 * Each follower hears of what it may see; one that reads too slowly misses some, and is
 * told how many ("lost").
 */
#pragma once

#include "api/router.h"
#include "store/owner.h"

struct api;
struct events;
struct json;

#define EVENT_FOLLOWERS_MAX 256

extern const struct route route_events;

/* NULL: no memory. */
struct events *events_new(void);
void events_free(struct events *e);

/* Whether anybody listens: else there is no need to make what to tell. */
bool events_followed(const struct api *api);

/* Ends all streams: the daemon is ending, and they would not. */
void events_end(struct events *e);

/* name: "run.started", "sandbox.created" and so on. data is taken over. */
void event_publish(struct api *api, const char *name, const struct owner *owner, struct json *data);
