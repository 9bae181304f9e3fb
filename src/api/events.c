#include "api/events.h"

#include "api/api.h"
#include "api/caller.h"
#include "api/exchange.h"
#include "base/attr.h"
#include "base/json.h"

#include <errno.h>
#include <stdlib.h>

struct follower {
	struct follower *next;
	struct events *events;
	struct exchange *x;
	struct viewer viewer;
	bool full;
	int64_t lost; /* events, since it is full */
};

struct events {
	struct follower *followers;
	size_t n_followers;
};

struct events *events_new(void)
{
	return calloc(1, sizeof(struct events));
}

static void follower_free(struct follower *f)
{
	struct follower **at = &f->events->followers;

	while (*at != f)
		at = &(*at)->next;
	*at = f->next;
	f->events->n_followers--;
	free(f);
}

void events_free(struct events *e)
{
	while (e && e->followers) {
		exchange_watch(e->followers->x, NULL, NULL);
		follower_free(e->followers);
	}
	free(e);
}

static void on_drain(struct exchange *x)
{
	struct follower *f = exchange_ctx(x);
	_cleanup_(json_freep) struct json *j = json_new_object();

	f->full = false;
	if (f->lost == 0)
		return;
	json_set_int(j, "count", f->lost);
	f->lost = 0;
	(void)exchange_event(x, "lost", j);
}

static void on_close(struct exchange *x, enum exchange_end how _unused_)
{
	follower_free(exchange_ctx(x));
}

static const struct exchange_events follower_events = {.on_drain = on_drain, .on_close = on_close};

void event_publish(struct api *api, const char *name, const struct owner *owner, struct json *data)
{
	for (struct follower *f = api->events->followers; f; f = f->next) {
		if (!f->viewer.all && !owner_is(&f->viewer.owner, owner))
			continue;
		if (f->full)
			f->lost++;
		else
			f->full = exchange_event(f->x, name, data) >= EXCHANGE_HIGH;
	}
	json_free(data);
}

bool events_followed(const struct api *api)
{
	return api->events->followers != NULL;
}

void events_end(struct events *e)
{
	while (e->followers) {
		struct exchange *x = e->followers->x;

		exchange_watch(x, NULL, NULL);
		follower_free(e->followers);
		exchange_end(x);
	}
}

static void events_follow(struct exchange *x)
{
	struct events *e = api_of(x)->events;
	struct follower *f = e->n_followers < EVENT_FOLLOWERS_MAX ? calloc(1, sizeof(*f)) : NULL;
	struct cay_error err;

	if (!f) {
		(void)cay_fail(&err, CAY_E_AT_CAPACITY, 0, "%d follow events already",
			       EVENT_FOLLOWERS_MAX);
		exchange_fail(x, &err);
		return;
	}
	*f = (struct follower){
		.events = e, .x = x, .viewer = caller_of(x)->viewer, .next = e->followers};
	e->followers = f;
	e->n_followers++;
	exchange_watch(x, &follower_events, f);
	exchange_events_begin(x);
}

const struct route route_events = {
	.method = "GET",
	.pattern = "/v1/events",
	.handle = events_follow,
	.flags = ROUTE_CANCELS_ON_FIN | ROUTE_STREAMS_ANSWER,
	.name = "events",
};
