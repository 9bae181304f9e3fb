#include "base/loop.h"

#include "base/clock.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

struct loop {
	int epoll;
	bool stopped;
	struct loop_timer **heap; /* from 1 on, the soonest first */
	size_t n_timers, cap;
	struct epoll_event *round; /* what is being called; NULL between rounds */
	int n_round;
};

struct loop *loop_new(void)
{
	struct loop *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (l->epoll < 0) {
		free(l);
		return NULL;
	}
	return l;
}

void loop_free(struct loop *l)
{
	if (!l)
		return;
	(void)close(l->epoll);
	free(l->heap);
	free(l);
}

static int control(struct loop *l, int what, struct loop_fd *f, uint32_t events)
{
	struct epoll_event e = {.events = events, .data.ptr = f};

	return epoll_ctl(l->epoll, what, f->fd, &e) < 0 ? -errno : 0;
}

int loop_add(struct loop *l, struct loop_fd *f, uint32_t events)
{
	int r = control(l, EPOLL_CTL_ADD, f, events);

	f->added = r == 0;
	f->events = events;
	return r;
}

int loop_change(struct loop *l, struct loop_fd *f, uint32_t events)
{
	int r = 0;

	if (events != f->events)
		r = control(l, EPOLL_CTL_MOD, f, events);
	if (r == 0)
		f->events = events;
	return r;
}

void loop_remove(struct loop *l, struct loop_fd *f)
{
	if (!f->added)
		return;
	(void)control(l, EPOLL_CTL_DEL, f, 0);
	f->added = false;
	/* It may be among those that are called next in this round. */
	for (int n = 0; n < l->n_round; n++)
		if (l->round[n].data.ptr == f)
			l->round[n].data.ptr = NULL;
}

static void put(struct loop *l, struct loop_timer *t, size_t place)
{
	l->heap[place] = t;
	t->place = place;
}

static void rise(struct loop *l, struct loop_timer *t, size_t at)
{
	for (; at > 1 && l->heap[at / 2]->at_ns > t->at_ns; at /= 2)
		put(l, l->heap[at / 2], at);
	put(l, t, at);
}

static void sink(struct loop *l, struct loop_timer *t, size_t at)
{
	for (size_t child; (child = 2 * at) <= l->n_timers; at = child) {
		if (child < l->n_timers && l->heap[child + 1]->at_ns < l->heap[child]->at_ns)
			child++;
		if (l->heap[child]->at_ns >= t->at_ns)
			break;
		put(l, l->heap[child], at);
	}
	put(l, t, at);
}

void loop_cancel(struct loop *l, struct loop_timer *t)
{
	size_t at = t->place;
	struct loop_timer *last;

	if (at == 0)
		return;
	t->place = 0;
	last = l->heap[l->n_timers--];
	if (last == t)
		return;
	rise(l, last, at);
	sink(l, last, last->place);
}

int loop_at(struct loop *l, struct loop_timer *t, uint64_t at_ns)
{
	loop_cancel(l, t);
	if (l->n_timers + 2 > l->cap) {
		size_t cap = l->cap ? 2 * l->cap : 64;
		struct loop_timer **heap = realloc(l->heap, cap * sizeof(struct loop_timer *));

		if (!heap)
			return -ENOMEM;
		l->heap = heap;
		l->cap = cap;
	}
	t->at_ns = at_ns;
	rise(l, t, ++l->n_timers);
	return 0;
}

int loop_after(struct loop *l, struct loop_timer *t, uint64_t ms)
{
	return loop_at(l, t, clock_now_ns() + ms * 1000000);
}

/* Milliseconds until the next timer, never too early; -1: there is none. */
static int next_ms(const struct loop *l)
{
	uint64_t now, left;

	if (l->n_timers == 0)
		return -1;
	now = clock_now_ns();
	if (l->heap[1]->at_ns <= now)
		return 0;
	left = (l->heap[1]->at_ns - now + 999999) / 1000000;
	return left > INT_MAX ? INT_MAX : (int)left;
}

/* Those that are due now: one that is set again for at once waits for the next round. */
static void fire(struct loop *l)
{
	uint64_t now = clock_now_ns();

	while (l->n_timers > 0 && l->heap[1]->at_ns <= now && !l->stopped) {
		struct loop_timer *t = l->heap[1];

		loop_cancel(l, t);
		t->fire(t);
	}
}

static int call_ready(struct loop *l, int max, int timeout_ms)
{
	struct epoll_event round[LOOP_ROUND];
	int n = epoll_wait(l->epoll, round, max, timeout_ms);

	if (n < 0 && errno != EINTR)
		return -errno;
	l->round = round;
	l->n_round = n < 0 ? 0 : n;
	for (int k = 0; k < l->n_round && !l->stopped; k++) {
		struct loop_fd *f = round[k].data.ptr;

		if (f)
			f->ready(f, round[k].events);
	}
	l->n_round = 0;
	return 0;
}

int loop_run(struct loop *l)
{
	l->stopped = false;
	while (!l->stopped) {
		int r = call_ready(l, LOOP_ROUND, next_ms(l));

		if (r < 0)
			return r;
		fire(l);
	}
	return 0;
}

int loop_epoll(const struct loop *l)
{
	return l->epoll;
}

void loop_turn(struct loop *l, int max)
{
	(void)call_ready(l, max < LOOP_ROUND ? max : LOOP_ROUND, 0);
}

void loop_stop(struct loop *l)
{
	l->stopped = true;
}
