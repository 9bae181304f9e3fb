#include "session/quota.h"

#include "base/attr.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CHAINS 1024u

#define MINUTE_SLOT_MS 1000ll
#define DAY_SLOT_MS    (3600ll * 1000)

/*
 * What was counted lately, by slots of time: one more than the span has, because
 * the slot of now has only begun, and none may be forgotten before its time.
 */
#define MINUTE_SLOTS 61
#define DAY_SLOTS    25

struct window {
	int64_t now; /* number of the newest slot */
	int64_t slots[MINUTE_SLOTS];
};

struct usage_of {
	struct usage_of *next;
	struct owner owner;
	int64_t runs, sandboxes;
	struct window minute, day;
};

struct quota {
	struct key_quotas total;
	int64_t runs, sandboxes;
	struct usage_of *chains[CHAINS];
};

/* Slots that have passed since are emptied: they are used again. */
static void window_advance(struct window *w, int n, int64_t slot)
{
	if (slot - w->now >= n)
		memset(w->slots, 0, sizeof(w->slots));
	for (int64_t i = w->now + 1; slot - w->now < n && i <= slot; i++)
		w->slots[i % n] = 0;
	if (slot > w->now)
		w->now = slot;
}

static void window_add(struct window *w, int n, int64_t slot_ms, int64_t now_ms, int64_t count)
{
	window_advance(w, n, now_ms / slot_ms);
	w->slots[w->now % n] += count;
}

static int64_t window_sum(struct window *w, int n, int64_t slot_ms, int64_t now_ms)
{
	int64_t sum = 0;

	window_advance(w, n, now_ms / slot_ms);
	for (int i = 0; i < n; i++)
		sum += w->slots[i];
	return sum;
}

/* When the oldest have gone so far that less than max is left, in seconds from now. */
static int64_t window_wait_s(struct window *w, int n, int64_t slot_ms, int64_t now_ms, int64_t max)
{
	int64_t sum = window_sum(w, n, slot_ms, now_ms), slot = w->now - n + 1, free_ms;

	/* The first n slots since the start have none before them. */
	for (; slot < w->now; slot++) {
		sum -= slot >= 0 ? w->slots[slot % n] : 0;
		if (sum < max)
			break;
	}
	free_ms = (slot + n) * slot_ms;
	return (free_ms - now_ms + 999) / 1000;
}

struct quota *quota_new(const struct key_quotas *total)
{
	struct quota *q = calloc(1, sizeof(*q));

	if (q)
		q->total = *total;
	return q;
}

void quota_free(struct quota *q)
{
	for (size_t i = 0; q && i < CHAINS; i++)
		for (struct usage_of *u = q->chains[i], *next; u; u = next) {
			next = u->next;
			free(u);
		}
	free(q);
}

/* FNV-1a. Ids are ours and random: nobody can choose them for one chain. */
static struct usage_of **chain_of(struct quota *q, const struct owner *o)
{
	char text[OWNER_SIZE];
	uint32_t h = 2166136261u;

	for (const char *p = owner_text(o, text); *p; p++)
		h = (h ^ (unsigned char)*p) * 16777619u;
	return &q->chains[h % CHAINS];
}

static struct usage_of *find(struct quota *q, const struct owner *o)
{
	struct usage_of *u = *chain_of(q, o);

	while (u && !owner_is(&u->owner, o))
		u = u->next;
	return u;
}

static struct usage_of *find_or_add(struct quota *q, const struct owner *o, struct cay_error *err)
{
	struct usage_of *u = find(q, o), **chain = chain_of(q, o);

	if (u)
		return u;
	u = calloc(1, sizeof(*u));
	if (!u) {
		(void)cay_fail(err, CAY_E_INTERNAL, ENOMEM, "count a run");
		return NULL;
	}
	u->owner = *o;
	u->next = *chain;
	*chain = u;
	return u;
}

static int64_t cpu_used(struct usage_of *u, int64_t now_ms)
{
	return window_sum(&u->day, DAY_SLOTS, DAY_SLOT_MS, now_ms);
}

static int64_t cpu_allowed(const struct key_quotas *limits)
{
	return limits->cpu_seconds_per_day > INT64_MAX / 1000 ? INT64_MAX
							      : limits->cpu_seconds_per_day * 1000;
}

/* A quota that is used up, in words. */
static int used_up(struct cay_error *err, const char *quota, int64_t max, int64_t retry_s)
{
	(void)cay_fail(err, CAY_E_RATE_LIMITED, 0, "the quota %s of %lld is used up", quota,
		       (long long)max);
	return cay_hint(err, "try again in %lld s", (long long)retry_s);
}

static int full(struct cay_error *err, const char *what, int64_t max)
{
	(void)cay_fail(err, CAY_E_AT_CAPACITY, 0, "all %lld %s are taken", (long long)max, what);
	return cay_hint(err, "try again in 1 s");
}

static int check_times(struct usage_of *u, const struct key_quotas *l, int64_t now_ms,
		       int64_t *retry_s, struct cay_error *err)
{
	int64_t cpu = cpu_allowed(l);

	if (l->runs_per_minute > 0 &&
	    window_sum(&u->minute, MINUTE_SLOTS, MINUTE_SLOT_MS, now_ms) >= l->runs_per_minute) {
		*retry_s = window_wait_s(&u->minute, MINUTE_SLOTS, MINUTE_SLOT_MS, now_ms,
					 l->runs_per_minute);
		return used_up(err, "runs_per_minute", l->runs_per_minute, *retry_s);
	}
	if (cpu > 0 && cpu_used(u, now_ms) >= cpu) {
		*retry_s = window_wait_s(&u->day, DAY_SLOTS, DAY_SLOT_MS, now_ms, cpu);
		return used_up(err, "cpu_seconds_per_day", l->cpu_seconds_per_day, *retry_s);
	}
	return 0;
}

int quota_take_run(struct quota *q, const struct owner *o, const struct key_quotas *limits,
		   int64_t now_ms, int64_t *ret_retry_s, struct cay_error *err)
{
	struct usage_of *u = find_or_add(q, o, err);

	*ret_retry_s = 1;
	if (!u)
		return -1;
	if (limits->parallel_runs > 0 && u->runs >= limits->parallel_runs)
		return used_up(err, "parallel_runs", limits->parallel_runs, *ret_retry_s);
	if (check_times(u, limits, now_ms, ret_retry_s, err) < 0)
		return -1;
	if (q->total.parallel_runs > 0 && q->runs >= q->total.parallel_runs)
		return full(err, "runs at once", q->total.parallel_runs);
	u->runs++;
	q->runs++;
	window_add(&u->minute, MINUTE_SLOTS, MINUTE_SLOT_MS, now_ms, 1);
	return 0;
}

bool quota_has_room(struct quota *q, const struct owner *o, const struct key_quotas *limits)
{
	const struct usage_of *u = find(q, o);

	return (limits->parallel_runs == 0 || !u || u->runs < limits->parallel_runs) &&
	       (q->total.parallel_runs == 0 || q->runs < q->total.parallel_runs);
}

int quota_check_times(struct quota *q, const struct owner *o, const struct key_quotas *limits,
		      int64_t now_ms, int64_t *ret_retry_s, struct cay_error *err)
{
	struct usage_of *u = find(q, o);

	return u ? check_times(u, limits, now_ms, ret_retry_s, err) : 0;
}

void quota_set_total(struct quota *q, const struct key_quotas *total)
{
	q->total = *total;
}

void quota_end_run(struct quota *q, const struct owner *o, double cpu_ms, int64_t now_ms)
{
	struct usage_of *u = find(q, o);

	assert(u && u->runs > 0 && q->runs > 0); /* none ends that was not taken */
	u->runs--;
	q->runs--;
	window_add(&u->day, DAY_SLOTS, DAY_SLOT_MS, now_ms, (int64_t)(cpu_ms + 0.5));
}

int quota_take_sandbox(struct quota *q, const struct owner *o, const struct key_quotas *limits,
		       int64_t *ret_retry_s, struct cay_error *err)
{
	struct usage_of *u = find_or_add(q, o, err);

	*ret_retry_s = 1;
	if (!u)
		return -1;
	if (limits->live_sandboxes > 0 && u->sandboxes >= limits->live_sandboxes) {
		(void)used_up(err, "live_sandboxes", limits->live_sandboxes, *ret_retry_s);
		return cay_hint(err, "delete one that is not needed any more");
	}
	if (q->total.live_sandboxes > 0 && q->sandboxes >= q->total.live_sandboxes)
		return full(err, "live sandboxes", q->total.live_sandboxes);
	u->sandboxes++;
	q->sandboxes++;
	return 0;
}

int quota_count_sandbox(struct quota *q, const struct owner *o, struct cay_error *err)
{
	struct usage_of *u = find_or_add(q, o, err);

	if (!u)
		return -1;
	u->sandboxes++;
	q->sandboxes++;
	return 0;
}

void quota_end_sandbox(struct quota *q, const struct owner *o)
{
	struct usage_of *u = find(q, o);

	assert(u && u->sandboxes > 0 && q->sandboxes > 0);
	u->sandboxes--;
	q->sandboxes--;
}

int quota_add_cpu(struct quota *q, const struct owner *o, double cpu_ms, int64_t now_ms,
		  struct cay_error *err)
{
	struct usage_of *u = find_or_add(q, o, err);

	if (!u)
		return -1;
	window_add(&u->day, DAY_SLOTS, DAY_SLOT_MS, now_ms, (int64_t)(cpu_ms + 0.5));
	return 0;
}

int64_t quota_cpu_left_ms(struct quota *q, const struct owner *o, const struct key_quotas *limits,
			  int64_t now_ms)
{
	struct usage_of *u = find(q, o);
	int64_t left = cpu_allowed(limits) - (u ? cpu_used(u, now_ms) : 0);

	if (limits->cpu_seconds_per_day <= 0)
		return INT64_MAX;
	return left > 0 ? left : 1;
}

static bool is_idle(struct usage_of *u, int64_t now_ms)
{
	return u->runs == 0 && u->sandboxes == 0 && cpu_used(u, now_ms) == 0 &&
	       window_sum(&u->minute, MINUTE_SLOTS, MINUTE_SLOT_MS, now_ms) == 0;
}

struct quota_use quota_used_total(const struct quota *q)
{
	return (struct quota_use){.runs = q->runs, .sandboxes = q->sandboxes};
}

size_t quota_tidy(struct quota *q, int64_t now_ms)
{
	size_t n = 0;

	for (size_t i = 0; i < CHAINS; i++) {
		struct usage_of **at = &q->chains[i], *u;

		while ((u = *at)) {
			if (is_idle(u, now_ms)) {
				*at = u->next;
				free(u);
			} else {
				at = &u->next;
				n++;
			}
		}
	}
	return n;
}
