/* Islands made ahead, by kinds: how many there are, and when they go. Needs root. */
#include "island_run.h"

#include "base/attr.h"
#include "engine/native/launcher.h"
#include "policy/plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct mount_rules no_rules;
static struct launcher l;
static struct plan *plans[2 * SHELVES_MAX + 4];
static int64_t now;

static struct plan *make_plan(enum network_mode mode, const char *rule)
{
	struct spec spec = {.kind = SPEC_ARGV};
	struct settings settings;
	struct cay_error err;
	struct plan *plan = NULL;

	settings_init(&settings);
	assert_int_equal(strv_add(&spec.args, "/bin/true"), 0);
	assert_int_equal(strv_add(&spec.args, "a secret"), 0);
	if (mode == NETWORK_FULL)
		assert_int_equal(spec_set_network(&spec, "full", &err), 0);
	if (rule)
		assert_int_equal(spec_allow_domain(&spec, rule, &err), 0);
	assert_int_equal(plan_make(&spec, &settings, NULL, NULL, NULL, &plan, &err), 0);
	assert_int_equal(plan->network, mode);
	spec_done(&spec);
	settings_done(&settings);
	return plan;
}

static int begin(void **state _unused_)
{
	launcher_init(&l, &no_rules);
	now = 1000000;
	for (size_t n = 0; n < ARRAY_LEN(plans); n++) {
		plans[n] = make_plan(NETWORK_NONE, NULL);
		plans[n]->limits.pids = 20 + n;
	}
	return 0;
}

static int end(void **state _unused_)
{
	launcher_done(&l);
	for (size_t n = 0; n < ARRAY_LEN(plans); n++)
		free(plans[n]);
	return 0;
}

static void restock(void)
{
	struct cay_error err;
	int r;

	do
		r = shelves_restock(&l, now, &err);
	while (r == 0);
	assert_int_equal(r, 1);
}

/* Whether there was one; it ends at once. */
static bool ask_for(const struct plan *p)
{
	struct launched i;
	bool had = shelves_take(&l, p, NULL, ++now, &i);

	if (had)
		launched_discard(&i);
	return had;
}

static const struct shelf *shelf_of(const struct plan *p)
{
	for (size_t n = 0; n < l.shelves.n; n++)
		if (plan_fits_island(l.shelves.items[n]->plan, p))
			return l.shelves.items[n];
	return NULL;
}

static void name(const struct plan *p, size_t n)
{
	struct cay_error err;

	assert_int_equal(shelves_name(&l, p, n, now, &err), 0);
}

static void what_is_asked_for_again_is_kept(void **state _unused_)
{
	assert_false(ask_for(plans[0]));
	restock();
	assert_int_equal(l.shelves.n_islands, 0);
	assert_false(ask_for(plans[0]));
	assert_false(ask_for(plans[1]));
	restock();
	assert_int_equal(l.shelves.n_islands, SHELF_FIRST);
	assert_int_equal(launcher_stock(&l).islands, SHELF_FIRST);
	assert_false(ask_for(plans[2]));
	assert_true(ask_for(plans[0]));
	assert_true(ask_for(plans[0]));
	assert_false(ask_for(plans[0]));
}

static void what_is_asked_for_seldom_is_not(void **state _unused_)
{
	assert_false(ask_for(plans[0]));
	assert_true(shelves_ease_later(&l.shelves));
	now += SHELF_FORGET_MS;
	restock();
	assert_int_equal(l.shelves.n, 0);
	assert_false(shelves_ease_later(&l.shelves));
	assert_false(ask_for(plans[0]));
	restock();
	assert_int_equal(l.shelves.n_islands, 0);
}

static void plans_with_mounts_have_none(void **state _unused_)
{
	struct cay_error err;

	plans[0]->n_mounts = 1;
	plans[0]->mounts[0].source = plans[0]->mounts[0].target = plans[0]->workdir;
	for (int n = 0; n < 3; n++)
		assert_false(ask_for(plans[0]));
	assert_int_equal(l.shelves.n, 0);
	assert_int_equal(shelves_name(&l, plans[0], 1, now, &err), -1);
	assert_int_equal(err.code, CAY_E_INVALID);
}

static void demand_makes_it_grow(void **state _unused_)
{
	const struct shelf *f;

	name(plans[0], 1);
	f = shelf_of(plans[0]);
	for (size_t target = 1; target < SHELF_MAX; target *= 2) {
		assert_int_equal(f->target, target);
		restock();
		assert_int_equal(f->n, target);
		for (size_t n = 0; n < target; n++)
			assert_true(ask_for(plans[0]));
		assert_false(ask_for(plans[0]));
	}
	assert_false(ask_for(plans[0]));
	assert_int_equal(f->target, SHELF_MAX);
}

static void silence_makes_it_shrink(void **state _unused_)
{
	const struct shelf *f, *named;

	name(plans[1], 3);
	named = shelf_of(plans[1]);
	for (int n = 0; n < 6; n++) {
		(void)ask_for(plans[0]);
		(void)ask_for(plans[1]);
	}
	f = shelf_of(plans[0]);
	assert_int_equal(f->target, SHELF_MAX);
	restock();
	for (size_t target = SHELF_MAX; target > 1; target /= 2) {
		assert_int_equal(f->n, target);
		assert_int_equal(named->n, target > 3 ? target : 3);
		now += SHELF_EASE_MS - 5;
		restock();
		assert_int_equal(f->n, target);
		now += 10;
		restock();
	}
	assert_int_equal(f->n, 1);
	assert_int_equal(named->n, 3);
	now += SHELF_FORGET_MS;
	restock(); /* the island goes */
	restock(); /* and the shelf */
	assert_null(shelf_of(plans[0]));
	assert_int_equal(l.shelves.n_islands, 3);
	assert_false(shelves_ease_later(&l.shelves));
}

static void the_longest_unused_gives_way(void **state _unused_)
{
	name(plans[0], 1);
	for (size_t n = 1; n < SHELVES_MAX + 2; n++)
		for (int times = 0; times < 2; times++)
			assert_false(ask_for(plans[n]));
	assert_int_equal(shelf_of(plans[0])->target, 1);
	assert_int_equal(shelf_of(plans[1])->target, 0);
	assert_int_equal(shelf_of(plans[2])->target, 0);
	for (size_t n = 3; n < SHELVES_MAX + 2; n++)
		assert_int_equal(shelf_of(plans[n])->target, SHELF_FIRST);
	/* What is asked for once takes nobody's place. */
	for (int times = 0; times < 3; times++)
		for (size_t n = SHELVES_MAX + 2; n < ARRAY_LEN(plans); n++)
			if (times == 0 || !shelf_of(plans[n]))
				assert_false(ask_for(plans[n]));
	for (size_t n = 3; n < SHELVES_MAX + 2; n++)
		assert_int_equal(shelf_of(plans[n])->target, SHELF_FIRST);
	assert_true(l.shelves.n <= 2 * SHELVES_MAX);
}

static void no_more_can_be_named_than_there_are(void **state _unused_)
{
	struct cay_error err;

	for (size_t n = 0; n < SHELVES_MAX; n++)
		name(plans[n], 1);
	assert_int_equal(shelves_name(&l, plans[SHELVES_MAX], 1, now, &err), -1);
	assert_int_equal(err.code, CAY_E_AT_CAPACITY);
	for (int times = 0; times < 3; times++)
		assert_false(ask_for(plans[SHELVES_MAX]));
	assert_int_equal(shelf_of(plans[SHELVES_MAX])->target, 0);
}

static void memory_bounds_them(void **state _unused_)
{
	l.shelves.memory_bytes = 3ull * AHEAD_BYTES + 1;
	name(plans[0], 2);
	for (int n = 0; n < 4; n++)
		(void)ask_for(plans[1]);
	restock();
	assert_int_equal(l.shelves.n_islands, 3);
	assert_int_equal(shelf_of(plans[1])->n, 3); /* asked for last */
	for (int n = 0; n < 4; n++)
		(void)ask_for(plans[2]);
	restock();
	assert_int_equal(shelf_of(plans[1])->n, 0);
	assert_int_equal(shelf_of(plans[2])->n, 3);
	l.shelves.memory_bytes = AHEAD_BYTES - 1;
	for (int n = 0; n < 3; n++)
		assert_true(ask_for(plans[2]));
	restock();
	assert_int_equal(l.shelves.n_islands, 0);
}

static void one_that_fails_is_not_in_the_way(void **state _unused_)
{
	struct cay_error err;
	struct shelf *bad;

	name(plans[0], 1);
	(void)ask_for(plans[1]);
	(void)ask_for(plans[1]);
	bad = (struct shelf *)shelf_of(plans[1]);
	bad->plan->uid = 7; /* no plan has that */
	assert_int_equal(shelves_restock(&l, now, &err), 0);
	assert_true(bad->failed);
	restock();
	assert_int_equal(l.shelves.n_islands, 1);
	now += SHELF_EASE_MS + 10;
	assert_int_equal(shelves_restock(&l, now, &err), -1); /* again, after a while */
}

/* The wires are laid; rules are for whoever carries them. */
static void networks_are_there(void **state _unused_)
{
	struct plan *a = make_plan(NETWORK_ALLOWLIST, "example.org"),
		    *b = make_plan(NETWORK_ALLOWLIST, "a.longer.example.org"),
		    *full = make_plan(NETWORK_FULL, NULL);
	struct isolation iso = {0};
	struct launched i;
	struct cay_error err;

	name(a, 2);
	restock();
	assert_false(ask_for(full));
	assert_true(shelves_take(&l, b, NULL, now, &i));
	for (size_t n = 0; n < EGRESS_FDS; n++)
		assert_true(i.wires[n] >= 0);
	launched_discard(&i);
	/* Also where it looks at the order's plan itself. */
	assert_int_equal(run(&l, b, &iso, NULL, 0, &err), 0);
	assert_int_equal(l.shelves.n_islands, 0);
	free(a);
	free(b);
	free(full);
}

static void nothing_of_a_program_is_kept(void **state _unused_)
{
	const struct plan *kept;
	struct cay_error err;

	(void)ask_for(plans[0]);
	kept = shelf_of(plans[0])->plan;
	assert_true(kept->size < plans[0]->size);
	assert_null(memmem(kept, kept->size, "a secret", strlen("a secret")));
	assert_non_null(memmem(plans[0], plans[0]->size, "a secret", strlen("a secret")));
	assert_int_equal(plan_check(kept, kept->size, &err), 0);
	assert_int_equal(kept->env.len + kept->compile.len, 0);
	assert_string_equal(plan_str(kept, kept->workdir), "/workspace");
	assert_string_equal(plan_first(kept, kept->argv), "true");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(what_is_asked_for_again_is_kept),
		TEST(what_is_asked_for_seldom_is_not),
		TEST(plans_with_mounts_have_none),
		TEST(demand_makes_it_grow),
		TEST(silence_makes_it_shrink),
		TEST(the_longest_unused_gives_way),
		TEST(no_more_can_be_named_than_there_are),
		TEST(memory_bounds_them),
		TEST(one_that_fails_is_not_in_the_way),
		TEST(networks_are_there),
		TEST(nothing_of_a_program_is_kept),
	};

	if (geteuid() != 0) {
		(void)fprintf(stderr, "test_shelf needs root: islands with a range of ids\n");
		return getenv("CAY_MUST_WORK") ? 1 : 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
