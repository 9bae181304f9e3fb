#include "egress/names.h"

#include "base/clock.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How long an answer is kept, whatever it says itself, in seconds. */
#define KEPT_MIN_S 5
#define KEPT_MAX_S 300

/* Until questions that the rate holds up are looked at again. */
#define RATE_WAIT_MS 20

struct lookup {
	struct names *names;
	struct lookup *next;
	struct question *question; /* NULL: it waits to be asked */
	struct names_wait *waits;
	char name[DOMAIN_SIZE];
};

static void unlink_lookup(struct lookup *l)
{
	struct lookup **at = &l->names->lookups;

	while (*at != l)
		at = &(*at)->next;
	*at = l->next;
	l->names->n_lookups--;
}

void names_done(struct names *n)
{
	while (n->lookups) {
		struct lookup *l = n->lookups;

		if (l->question)
			resolver_forget(l->question);
		unlink_lookup(l);
		for (struct names_wait *w = l->waits; w; w = w->next)
			w->lookup = NULL;
		free(l);
	}
	if (n->loop)
		loop_cancel(n->loop, &n->again);
	book_done(&n->book);
}

static enum egress_why keep(struct names *n, const char *name, const struct answer *a,
			    struct book_name **ret)
{
	unsigned ttl = a->ttl_s < KEPT_MIN_S ? KEPT_MIN_S : a->ttl_s;
	uint64_t until = clock_now_ns() + (ttl < KEPT_MAX_S ? ttl : KEPT_MAX_S) * 1000000000ull;
	int r = book_enter(&n->book, name, ret);

	if (r == 0)
		r = book_keep(*ret, a->list, a->n, until);
	if (r < 0)
		*ret = NULL;
	return r == 0 ? WHY_NONE : r == -ENOSPC ? WHY_NAMES : WHY_NO_ANSWER;
}

static enum egress_why outcome(struct names *n, const char *name, const struct answer *a,
			       struct book_name **ret)
{
	switch (a->outcome) {
	case RESOLVED:
		return keep(n, name, a, ret);
	case RESOLVED_NOTHING:
		return WHY_NONE;
	case RESOLVED_NO_NAME:
		return WHY_NO_SUCH_NAME;
	case RESOLVED_FAILED:
		break;
	}
	return WHY_NO_ANSWER;
}

/* Tells those who wait for it, and frees it. */
static void conclude(struct lookup *l, enum egress_why why, struct book_name *found)
{
	unlink_lookup(l);
	/* One that is called may make others leave. */
	while (l->waits) {
		struct names_wait *w = l->waits;

		l->waits = w->next;
		w->lookup = NULL;
		w->done(w, why, found);
	}
	free(l);
}

static void on_answered(void *ctx, const struct answer *a)
{
	struct lookup *l = ctx;
	struct book_name *found = NULL;
	enum egress_why why = outcome(l->names, l->name, a, &found);

	conclude(l, why, found);
}

/* Of those that wait to be asked, the oldest. */
static struct lookup *next_to_ask(const struct names *n)
{
	struct lookup *l = n->lookups;

	while (l && l->question)
		l = l->next;
	return l;
}

/* Asks, where the rate lets it, or sees to it that it is asked later. 0 or -ENOMEM. */
static int ask(struct lookup *l)
{
	struct names *n = l->names;

	if (rate_room(&n->rate, clock_now_ns()) == 0)
		return n->again.place > 0 ? 0 : loop_after(n->loop, &n->again, RATE_WAIT_MS);
	rate_use(&n->rate, 1);
	l->question = resolver_ask(n->resolver, l->name, on_answered, l);
	return l->question ? 0 : -ENOMEM;
}

static void on_again(struct loop_timer *t)
{
	const struct names *n = t->ctx;
	struct lookup *l;

	while (t->place == 0 && (l = next_to_ask(n)))
		if (ask(l) < 0)
			conclude(l, WHY_NO_ANSWER, NULL);
}

void names_init(struct names *n, struct loop *loop, struct resolver *r, uint64_t per_second)
{
	*n = (struct names){.resolver = r,
			    .loop = loop,
			    .rate = rate_of_things(per_second),
			    .again = {.fire = on_again, .ctx = n}};
}

static struct lookup *find_lookup(const struct names *n, const char *name)
{
	struct lookup *l = n->lookups;

	while (l && strcmp(l->name, name) != 0)
		l = l->next;
	return l;
}

static int begin(struct names *n, const char *name, struct lookup **ret)
{
	struct lookup **at = &n->lookups;
	struct lookup *l;

	if (n->n_lookups >= NAMES_LOOKUPS_MAX)
		return -EAGAIN;
	l = calloc(1, sizeof(*l));
	if (!l)
		return -ENOMEM;
	l->names = n;
	(void)snprintf(l->name, sizeof(l->name), "%s", name);
	while (*at)
		at = &(*at)->next;
	*at = l;
	n->n_lookups++;
	if (ask(l) < 0) {
		unlink_lookup(l);
		free(l);
		return -ENOMEM;
	}
	*ret = l;
	return 0;
}

static int find_host(struct names *n, struct book_name **ret)
{
	struct answer loopback = {.n = 2, .ttl_s = KEPT_MAX_S};

	(void)address_parse("127.0.0.1", &loopback.list[0]);
	(void)address_parse("::1", &loopback.list[1]);
	return keep(n, NAMES_HOST, &loopback, ret) == WHY_NONE ? 1 : -ENOMEM;
}

int names_resolve(struct names *n, const char *name, struct names_wait *w, struct book_name **ret)
{
	struct book_name *known = book_find(&n->book, name);
	struct lookup *l = find_lookup(n, name);
	int r = 0;

	if (strcmp(name, NAMES_HOST) == 0)
		return find_host(n, ret);
	if (known && known->leads_to && known->until_ns > clock_now_ns()) {
		*ret = known;
		return 1;
	}
	if (!l)
		r = begin(n, name, &l);
	if (r < 0)
		return r;
	w->lookup = l;
	w->next = l->waits;
	l->waits = w;
	return 0;
}

void names_leave(struct names_wait *w)
{
	struct names_wait **at = w->lookup ? &w->lookup->waits : NULL;

	while (at && *at && *at != w)
		at = &(*at)->next;
	if (at && *at)
		*at = w->next;
	w->lookup = NULL;
}
