#include "engine/native/rush.h"

#include "base/attr.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#define T0 ((int64_t)1000 * RUSH_MS)

static void those_that_run_are_counted(void **state _unused_)
{
	struct rush r = {0};
	int64_t a = rush_begin(&r, T0), b = rush_begin(&r, T0 + RUSH_MS - 1), c;

	assert_int_equal(rush_count(&r, T0 + RUSH_MS - 1), 2);
	c = rush_begin(&r, T0 + RUSH_MS);
	assert_int_equal(rush_count(&r, T0 + RUSH_MS), 3);
	rush_end(&r, a, T0 + RUSH_MS);
	assert_int_equal(rush_count(&r, T0 + RUSH_MS), 2);
	rush_end(&r, c, T0 + RUSH_MS);
	assert_int_equal(rush_count(&r, T0 + RUSH_MS), 1);
	rush_end(&r, b, T0 + RUSH_MS);
	assert_int_equal(rush_count(&r, T0 + RUSH_MS), 0);
}

static void old_ones_are_not(void **state _unused_)
{
	struct rush r = {0};
	int64_t old = rush_begin(&r, T0), next;

	assert_int_equal(rush_count(&r, T0 + 2 * RUSH_MS - 1), 1);
	assert_int_equal(rush_count(&r, T0 + 2 * RUSH_MS), 0);
	next = rush_begin(&r, T0 + 2 * RUSH_MS);
	rush_end(&r, old, T0 + 2 * RUSH_MS); /* nobody's place but its own */
	assert_int_equal(rush_count(&r, T0 + 2 * RUSH_MS), 1);
	assert_int_equal(rush_count(&r, T0 + 9 * RUSH_MS), 0);
	rush_end(&r, next, T0 + 9 * RUSH_MS);
	assert_int_equal(rush_count(&r, T0 + 9 * RUSH_MS), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(those_that_run_are_counted),
		cmocka_unit_test(old_ones_are_not),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
