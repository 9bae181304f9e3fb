#include "session/logs.h"

#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void drop_first(struct logs *l)
{
	struct log_chunk *c = l->first;

	l->first = c->next;
	if (!l->first)
		l->last = NULL;
	l->bytes -= c->len;
	free(c);
}

static void append(struct logs *l, struct log_chunk *c)
{
	if (l->last)
		l->last->next = c;
	else
		l->first = c;
	l->last = c;
	l->bytes += c->len;
	while (l->bytes > LOGS_MAX_BYTES && l->first != c)
		drop_first(l);
}

void logs_add(struct logs *l, const char *run, enum stream s, const char *data, size_t len)
{
	struct log_chunk *c = malloc(sizeof(*c) + len);

	if (!c)
		return;
	*c = (struct log_chunk){.stream = s, .time_ms = clock_wall_ms(), .len = len};
	(void)snprintf(c->run, sizeof(c->run), "%s", run);
	memcpy(c->data, data, len);
	append(l, c);
	for (struct log_follower *f = l->followers, *next; f; f = next) {
		next = f->next;
		f->chunk(f->ctx, c);
	}
}

void logs_follow(struct logs *l, struct log_follower *f)
{
	f->next = l->followers;
	l->followers = f;
}

void logs_unfollow(struct logs *l, struct log_follower *f)
{
	struct log_follower **at = &l->followers;

	while (*at && *at != f)
		at = &(*at)->next;
	if (*at)
		*at = f->next;
}

void logs_done(struct logs *l)
{
	while (l->followers) {
		struct log_follower *f = l->followers;

		l->followers = f->next;
		f->end(f->ctx);
	}
	while (l->first)
		drop_first(l);
}
