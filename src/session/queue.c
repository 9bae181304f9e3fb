#include "session/queue.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The first is whose turn is next; its prev is the last. */
struct ring {
	struct ring *next, *prev;
};

struct queue_lane {
	struct ring ring; /* first: of its owner's */
	struct queue_line *line;
	char name[ID_SIZE];
	struct queue_place *first, *last;
};

struct queue_line {
	struct ring ring; /* first: of all owners */
	struct queue *queue;
	struct owner owner;
	struct ring *lanes;
	size_t n;
};

struct queue {
	struct ring *lines;
	size_t n;
};

static void ring_add(struct ring **head, struct ring *item)
{
	struct ring *first = *head;

	*item = (struct ring){item, item};
	if (!first) {
		*head = item;
		return;
	}
	item->next = first;
	item->prev = first->prev;
	first->prev->next = item;
	first->prev = item;
}

static void ring_remove(struct ring **head, struct ring *item)
{
	if (item->next == item)
		*head = NULL;
	else if (*head == item)
		*head = item->next;
	item->next->prev = item->prev;
	item->prev->next = item->next;
}

/* NULL where that was the last. */
static struct ring *ring_next(const struct ring *head, const struct ring *item)
{
	return item->next == head ? NULL : item->next;
}

static struct queue_line *line_of(struct ring *r)
{
	return (struct queue_line *)r;
}

static struct queue_lane *lane_of(struct ring *r)
{
	return (struct queue_lane *)r;
}

struct queue *queue_new(void)
{
	return calloc(1, sizeof(struct queue));
}

void queue_free(struct queue *q)
{
	while (q && queue_any(q))
		;
	free(q);
}

static struct queue_line *find_line(const struct queue *q, const struct owner *o)
{
	for (struct ring *r = q->lines; r; r = ring_next(q->lines, r))
		if (owner_is(&line_of(r)->owner, o))
			return line_of(r);
	return NULL;
}

static struct queue_lane *find_lane(const struct queue_line *l, const char *name)
{
	for (struct ring *r = l->lanes; r; r = ring_next(l->lanes, r))
		if (strcmp(lane_of(r)->name, name) == 0)
			return lane_of(r);
	return NULL;
}

int queue_check(const struct queue *q, const struct owner *o, const struct queue_bounds *max,
		struct cay_error *err)
{
	const struct queue_line *l = find_line(q, o);

	if (q->n >= max->all) {
		(void)cay_fail(err, CAY_E_AT_CAPACITY, 0, "%zu runs wait for room already", q->n);
		return cay_hint(err, "try again in 1 s");
	}
	if (l && l->n >= max->each) {
		(void)cay_fail(err, CAY_E_RATE_LIMITED, 0,
			       "%zu runs of the same key or user wait already", l->n);
		return cay_hint(err, "try again in 1 s, or wait for some of them");
	}
	return 0;
}

static struct queue_line *need_line(struct queue *q, const struct owner *o)
{
	struct queue_line *l = find_line(q, o);

	if (l)
		return l;
	l = calloc(1, sizeof(*l));
	if (!l)
		return NULL;
	l->queue = q;
	l->owner = *o;
	ring_add(&q->lines, &l->ring);
	return l;
}

static void tidy_line(struct queue_line *l)
{
	if (l->lanes)
		return;
	ring_remove(&l->queue->lines, &l->ring);
	free(l);
}

static struct queue_lane *need_lane(struct queue_line *l, const char *name)
{
	struct queue_lane *lane = find_lane(l, name);

	if (lane)
		return lane;
	lane = calloc(1, sizeof(*lane));
	if (!lane)
		return NULL;
	assert(strlen(name) < sizeof(lane->name));
	lane->line = l;
	memcpy(lane->name, name, strlen(name) + 1);
	ring_add(&l->lanes, &lane->ring);
	return lane;
}

int queue_join(struct queue *q, const struct owner *o, const char *lane, struct queue_place *p,
	       struct cay_error *err)
{
	struct queue_line *l = need_line(q, o);
	struct queue_lane *in = l ? need_lane(l, lane) : NULL;

	if (!in) {
		if (l)
			tidy_line(l);
		return cay_fail(err, CAY_E_INTERNAL, ENOMEM, "wait for room");
	}
	*p = (struct queue_place){.ctx = p->ctx, .lane = in, .prev = in->last};
	if (in->last)
		in->last->next = p;
	else
		in->first = p;
	in->last = p;
	l->n++;
	q->n++;
	return 0;
}

void queue_leave(struct queue *q, struct queue_place *p)
{
	struct queue_lane *lane = p->lane;
	struct queue_line *l;

	if (!lane)
		return;
	l = lane->line;
	if (p->prev)
		p->prev->next = p->next;
	else
		lane->first = p->next;
	if (p->next)
		p->next->prev = p->prev;
	else
		lane->last = p->prev;
	*p = (struct queue_place){.ctx = p->ctx};
	l->n--;
	q->n--;
	if (lane->first)
		return;
	ring_remove(&l->lanes, &lane->ring);
	free(lane);
	tidy_line(l);
}

static void ring_to_end(struct ring **head, struct ring *item)
{
	ring_remove(head, item);
	ring_add(head, item);
}

static struct queue_place *take(struct queue *q, struct queue_line *l)
{
	struct queue_lane *lane = lane_of(l->lanes);
	struct queue_place *p = lane->first;

	ring_to_end(&l->lanes, &lane->ring);
	ring_to_end(&q->lines, &l->ring);
	queue_leave(q, p);
	return p;
}

struct queue_place *queue_next(struct queue *q, queue_may_fn *may, void *ctx)
{
	for (struct ring *r = q->lines; r; r = ring_next(q->lines, r))
		if (may(ctx, lane_of(line_of(r)->lanes)->first))
			return take(q, line_of(r));
	return NULL;
}

struct queue_place *queue_any(struct queue *q)
{
	return q->lines ? take(q, line_of(q->lines)) : NULL;
}

size_t queue_length(const struct queue *q)
{
	return q->n;
}

size_t queue_ahead(const struct queue_place *p)
{
	size_t n = 0;

	while ((p = p->prev))
		n++;
	return n;
}
