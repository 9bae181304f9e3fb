#include "session/logs.h"

#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where one prints in small pieces. */
#define CHUNK_ROOM 4096

static void drop_first(struct logs *l)
{
	struct log_chunk *c = l->first;

	l->first = c->next;
	if (!l->first)
		l->last = NULL;
	l->bytes -= sizeof(*c) + c->room;
	free(c);
}

static void append(struct logs *l, struct log_chunk *c)
{
	if (l->last)
		l->last->next = c;
	else
		l->first = c;
	l->last = c;
	l->bytes += sizeof(*c) + c->room;
	while (l->bytes > LOGS_MAX_BYTES && l->first != c)
		drop_first(l);
}

static bool follows(const struct logs *l, const struct log_piece *p)
{
	const struct log_piece *last = l->last ? &l->last->all : NULL;

	return last && last->stream == p->stream && strcmp(last->run, p->run) == 0;
}

static void keep(struct logs *l, const struct log_piece *p)
{
	bool more = follows(l, p);
	struct log_chunk *c = l->last;
	size_t room = more && p->len < CHUNK_ROOM ? CHUNK_ROOM : p->len;

	if (!more || c->room - c->all.len < p->len) {
		c = malloc(sizeof(*c) + room);
		if (!c)
			return;
		*c = (struct log_chunk){.all = *p, .room = room};
		c->all.data = c->data;
		c->all.len = 0;
		append(l, c);
	}
	memcpy(c->data + c->all.len, p->data, p->len);
	c->all.len += p->len;
}

void logs_add(struct logs *l, const char *run, enum stream s, const char *data, size_t len)
{
	struct log_piece p = {.stream = s, .time_ms = clock_wall_ms(), .data = data, .len = len};

	(void)snprintf(p.run, sizeof(p.run), "%s", run);
	keep(l, &p);
	for (struct log_follower *f = l->followers, *next; f; f = next) {
		next = f->next;
		f->piece(f->ctx, &p);
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
