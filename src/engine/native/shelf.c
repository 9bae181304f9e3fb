#include "engine/native/shelf.h"

#include "base/attr.h"
#include "base/log.h"
#include "engine/native/launcher.h"
#include "engine/native/zygote.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

static bool is_of_waiters(const struct shelf *f)
{
	return f->kind && zygote_kind_waits(f->kind);
}

static size_t most_of(const struct shelf *f)
{
	return is_of_waiters(f) ? WAITERS_MAX : SHELF_MAX;
}

/*
 * What one of these takes in memory. Its cgroup knows what one that was borne has copied, and what
 * one that waits has; the most that was seen counts, or islands would come and go as they grow.
 */
static uint64_t weigh(struct shelf *f, int64_t now_ms)
{
	uint64_t own = 0;
	uint32_t unused;

	if (!f->kind)
		return AHEAD_BYTES;
	if (f->n > 0 && now_ms - f->weighed_ms >= SHELF_WEIGH_MS) {
		cgroup_now(&f->islands[0]->cgroup, &own, &unused);
		f->weighed_ms = now_ms;
	}
	if (own > f->own_bytes)
		f->own_bytes = own;
	if (is_of_waiters(f))
		return AHEAD_BYTES + (f->own_bytes > WAITER_BYTES ? f->own_bytes : WAITER_BYTES);
	/* One that was just made has not copied all that it will. */
	return AHEAD_BYTES + f->own_bytes > zygote_child_bytes(f->kind)
		       ? AHEAD_BYTES + f->own_bytes
		       : zygote_child_bytes(f->kind);
}

/* What there is, with all zygotes. */
static uint64_t weigh_all(struct launcher *l, int64_t now_ms)
{
	uint64_t sum = zygotes_bytes(l);

	for (size_t n = 0; n < l->shelves.n; n++)
		sum += l->shelves.items[n]->n * weigh(l->shelves.items[n], now_ms);
	return sum;
}

static struct launched *take_oldest(struct shelves *s, struct shelf *f)
{
	struct launched *i = f->islands[0];

	memmove(f->islands, f->islands + 1, --f->n * sizeof(f->islands[0]));
	s->n_islands--;
	return i;
}

static void drop_oldest(struct shelves *s, struct shelf *f)
{
	struct launched *i = take_oldest(s, f);

	launched_discard(i);
	free(i);
}

static void drop_shelf(struct shelves *s, size_t at)
{
	struct shelf *f = s->items[at];

	while (f->n > 0)
		drop_oldest(s, f);
	free(f->plan);
	free(f);
	s->items[at] = s->items[--s->n];
}

void shelves_retry(struct shelves *s)
{
	for (size_t n = 0; n < s->n; n++) {
		struct shelf *f = s->items[n];

		f->failed = false;
		while (f->n > 0 && f->islands[0]->mother && !zygote_is_well(f->islands[0]->mother))
			drop_oldest(s, f);
	}
}

void shelves_done(struct launcher *l)
{
	while (l->shelves.n > 0)
		drop_shelf(&l->shelves, l->shelves.n - 1);
}

static struct shelf *find(const struct shelves *s, const struct plan *p,
			  const struct zygote_kind *kind)
{
	for (size_t n = 0; n < s->n; n++)
		if (s->items[n]->kind == kind && plan_fits_island(s->items[n]->plan, p))
			return s->items[n];
	return NULL;
}

/*
 * How many have a target, or are only remembered. *ret_oldest is the one longest unused of them,
 * which nobody named; s->n where there is none.
 */
static size_t count(const struct shelves *s, bool stocked, size_t *ret_oldest)
{
	size_t many = 0, oldest = s->n;

	for (size_t n = 0; n < s->n; n++) {
		const struct shelf *f = s->items[n];

		if ((f->target > 0) != stocked)
			continue;
		many++;
		if (f->least == 0 && (oldest == s->n || f->used_ms < s->items[oldest]->used_ms))
			oldest = n;
	}
	*ret_oldest = oldest;
	return many;
}

/* NULL: no memory. */
static struct shelf *remember(struct shelves *s, const struct plan *p, struct zygote_kind *kind,
			      int64_t now_ms)
{
	struct shelf *f;
	size_t oldest;

	if (count(s, false, &oldest) >= SHELVES_MAX)
		drop_shelf(s, oldest);
	f = calloc(1, sizeof(*f));
	if (!f)
		return NULL;
	f->plan = plan_strip(p);
	if (!f->plan) {
		free(f);
		return NULL;
	}
	f->kind = kind;
	f->used_ms = f->eased_ms = now_ms;
	s->items[s->n++] = f;
	return f;
}

/* Gives it a target. Where there are too many that have one, the longest unused gives way. */
static bool stock(struct shelves *s, struct shelf *f, size_t target)
{
	size_t oldest;

	if (f->target == 0 && count(s, true, &oldest) >= SHELVES_MAX) {
		if (oldest == s->n)
			return false;
		s->items[oldest]->target = 0;
	}
	f->target = target;
	return true;
}

int shelves_name(struct launcher *l, const struct plan *like, size_t n, int64_t now_ms,
		 struct cay_error *err)
{
	struct shelves *s = &l->shelves;
	struct zygote_kind *kind;
	struct shelf *f;

	if (plan_check(like, like->size, err) < 0)
		return -1;
	if (like->n_mounts > 0 && !plan_warm(like))
		return cay_fail(err, CAY_E_INVALID, 0, "islands with mounts can't be made ahead");
	kind = zygote_kind_of(l, like);
	if (plan_warm(like) && !kind)
		return 0; /* none of them could be made */
	f = find(s, like, kind);
	if (!f)
		f = remember(s, like, kind, now_ms);
	if (!f)
		return cay_fail(err, CAY_E_INTERNAL, ENOMEM, "keep islands ready");
	n = size_min(n, AHEAD_MAX);
	if (!stock(s, f, n > f->target ? n : f->target))
		return cay_fail(err, CAY_E_AT_CAPACITY, 0, "too many kinds of islands are kept");
	f->least = n;
	f->failed = false;
	if (kind && !zygote_kind_waits(kind)) {
		kind->kept = true; /* who is to bear them is there for good, too */
		l->zygote_news = true;
	}
	return 0;
}

/* What waits there is what would be started now. */
static bool is_current(const struct launched *i)
{
	struct program_id now;

	if (!i->waits)
		return true;
	zygote_kind_look(i->waits, &now);
	return memcmp(&now, &i->program, sizeof(now)) == 0;
}

bool shelves_take(struct launcher *l, const struct plan *p, struct zygote_kind *kind,
		  int64_t now_ms, struct launched *ret)
{
	struct shelves *s = &l->shelves;
	struct shelf *f;

	/* Those of a runtime that a zygote has are there with it. */
	if ((p->n_mounts > 0 && !kind) || p->size > ORDER_PLAN_MAX)
		return false;
	f = find(s, p, kind);
	if (!f) {
		(void)remember(s, p, kind, now_ms); /* without memory it is not */
		return false;
	}
	f->used_ms = now_ms;
	f->failed = false;
	while (f->n > 0) {
		struct launched *i = take_oldest(s, f);
		struct pollfd silent = {.fd = i->control, .events = POLLIN};

		*ret = *i;
		free(i);
		/* It is well if it has nothing to say yet. */
		if (poll(&silent, 1, 0) == 0 && (!ret->mother || zygote_is_well(ret->mother)) &&
		    is_current(ret) && image_root_hold(l->image_store, p, &ret->image)) {
			if (ret->waits)
				ret->waited_us = cgroup_restart_clock(&ret->cgroup);
			f->duds = 0;
			return true;
		}
		launched_discard(ret);
		if (is_of_waiters(f) && ++f->duds == SHELF_DUDS_MAX)
			log_warning(
				"an interpreter does not wait for its program: its runs start cold",
				"set", kind->set, "program", kind->program);
	}
	if (f->duds >= SHELF_DUDS_MAX)
		f->target = 0;
	else if (f->target < most_of(f))
		(void)stock(s, f, f->target ? size_min(2 * f->target, most_of(f)) : SHELF_FIRST);
	return false;
}

/* Whether f has nothing left that could go. */
static bool ease(struct shelf *f, int64_t now_ms)
{
	int64_t since = f->used_ms > f->eased_ms ? f->used_ms : f->eased_ms;

	if (f->least == 0 && now_ms - f->used_ms >= SHELF_FORGET_MS) {
		f->target = 0;
		return f->n == 0;
	}
	if (now_ms - since < SHELF_EASE_MS)
		return false;
	f->eased_ms = now_ms;
	f->failed = false;
	if (f->target > 1)
		f->target = f->target / 2 > f->least ? f->target / 2 : f->least ? f->least : 1;
	return false;
}

static void ease_all(struct shelves *s, int64_t now_ms)
{
	for (size_t n = 0; n < s->n;)
		if (ease(s->items[n], now_ms))
			drop_shelf(s, n);
		else
			n++;
}

bool shelves_ease_later(const struct shelves *s)
{
	for (size_t n = 0; n < s->n; n++)
		if (s->items[n]->target > s->items[n]->least || s->items[n]->least == 0 ||
		    s->items[n]->failed)
			return true;
	return false;
}

static int make_of_kind(struct launcher *l, const struct shelf *f, struct launched *ret,
			struct cay_error *err)
{
	struct zygote *z;

	if (!f->kind)
		return launcher_make_live(l, f->plan, MADE_COLD, ret, err);
	if (is_of_waiters(f))
		return launcher_make_waiting(l, f->plan, f->kind, ret, err);
	z = zygote_find(l, f->kind);
	return z ? launcher_bear(l, z, f->plan, true, ret, err)
		 : cay_fail(err, CAY_E_ENGINE, 0, "there is no zygote of that kind");
}

static int make_one(struct launcher *l, struct shelf *f, struct cay_error *err)
{
	struct launched *i = malloc(sizeof(*i));

	if (!i)
		return cay_fail(err, CAY_E_INTERNAL, ENOMEM, "make islands ahead");
	if (make_of_kind(l, f, i, err) < 0) {
		free(i);
		return -1;
	}
	image_root_let_go(&i->image);
	f->islands[f->n++] = i;
	l->shelves.n_islands++;
	return 0;
}

/* Of the shelf that is longest unused, and was before then; but for what was named, if spare. */
static bool drop_unused(struct shelves *s, int64_t before_ms, bool spare)
{
	struct shelf *victim = NULL;

	for (size_t n = 0; n < s->n; n++) {
		struct shelf *other = s->items[n];

		if (other->n > (spare ? other->least : 0) && other->used_ms < before_ms &&
		    (!victim || other->used_ms < victim->used_ms))
			victim = other;
	}
	if (!victim)
		return false;
	drop_oldest(s, victim);
	if (victim->target > victim->least)
		victim->target = victim->n > victim->least ? victim->n : victim->least;
	return true;
}

/*
 * Of those that are short, and not only because none can be made or has no room, the one last asked
 * for.
 */
static struct shelf *find_lacking(const struct shelves *s, uint64_t room, int64_t now_ms)
{
	struct shelf *lacking = NULL;

	for (size_t n = 0; n < s->n; n++) {
		struct shelf *f = s->items[n];

		if (f->n < f->target && !f->failed && weigh(f, now_ms) <= room &&
		    (!lacking || f->used_ms > lacking->used_ms))
			lacking = f;
	}
	return lacking;
}

int shelves_restock(struct launcher *l, int64_t now_ms, struct cay_error *err)
{
	struct shelves *s = &l->shelves;
	struct shelf *lacking, *rich = NULL;
	uint64_t bytes;
	int r = 1;

	ease_all(s, now_ms);
	bytes = weigh_all(l, now_ms);
	/* A zygote has come, or they have grown. */
	if (bytes > s->memory_bytes)
		return drop_unused(s, INT64_MAX, true) || drop_unused(s, INT64_MAX, false) ? 0 : 1;
	while (s->n_islands < AHEAD_MAX &&
	       (lacking = find_lacking(s, s->memory_bytes - bytes, now_ms))) {
		r = make_one(l, lacking, err);
		if (r == 0)
			return 0;
		lacking->failed = true; /* the others are not to suffer for it */
	}
	for (size_t n = 0; n < s->n; n++)
		if (s->items[n]->n > s->items[n]->target)
			rich = s->items[n];
	if (!rich) {
		lacking = find_lacking(s, UINT64_MAX, now_ms);
		return lacking && drop_unused(s, lacking->used_ms, true) ? 0 : r;
	}
	drop_oldest(s, rich);
	return 0;
}
