#include "egress/book.h"

#include "egress/rate.h"

#include <errno.h>
#include <stdio.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void gives_addresses(void **state)
{
	struct book b = {0};
	struct book_name *first, *again, *second;

	(void)state;
	assert_null(book_at(&b, BOOK_FIRST));
	assert_int_equal(book_enter(&b, "a.org", &first), 0);
	assert_int_equal(book_enter(&b, "b.org", &second), 0);
	assert_int_equal(book_enter(&b, "a.org", &again), 0);
	assert_ptr_equal(first, again);
	assert_int_equal(first->address, BOOK_FIRST);
	assert_int_equal(second->address, BOOK_FIRST + 1);
	assert_ptr_equal(book_at(&b, BOOK_FIRST + 1), second);
	assert_ptr_equal(book_find(&b, "b.org"), second);
	assert_null(book_find(&b, "c.org"));
	assert_null(book_at(&b, BOOK_OURS));
	assert_null(book_at(&b, BOOK_FIRST + 2));
	assert_null(book_at(&b, BOOK_FIRST - 1));
	book_done(&b);
}

static void is_full_at_last(void **state)
{
	struct book b = {0};
	struct book_name *n;
	char name[32];

	(void)state;
	for (int k = 0; k < BOOK_MAX; k++) {
		(void)snprintf(name, sizeof(name), "n%d.org", k);
		assert_int_equal(book_enter(&b, name, &n), 0);
	}
	assert_int_equal(book_enter(&b, "more.org", &n), -ENOSPC);
	assert_int_equal(book_enter(&b, "n7.org", &n), 0);
	assert_int_equal(n->address, BOOK_FIRST + 7);
	/* All of them are out of 198.18.0.0/15. */
	assert_true(BOOK_FIRST + BOOK_MAX <= 0xc6140000);
	book_done(&b);
}

static void keeps_results(void **state)
{
	struct address list[BOOK_RESULTS + 3] = {{{1}}, {{2}}};
	struct book b = {0};
	struct book_name *n;

	(void)state;
	assert_int_equal(book_enter(&b, "a.org", &n), 0);
	assert_null(n->leads_to);
	assert_int_equal(book_keep(n, list, BOOK_RESULTS + 3, 7), 0);
	assert_int_equal(n->n_leads_to, BOOK_RESULTS);
	assert_int_equal(book_keep(n, list + 1, 1, 9), 0);
	assert_int_equal(n->n_leads_to, 1);
	assert_int_equal(n->leads_to[0].bytes[0], 2);
	assert_int_equal(n->until_ns, 9);
	book_done(&b);
}

#define SECOND 1000000000ull

static void keeps_to_a_rate(void **state)
{
	struct rate r = rate_of_bytes(1000000);
	uint64_t now = 5 * SECOND, used = 0;

	(void)state;
	assert_int_equal(rate_room(&r, now), 100000);
	rate_use(&r, 100000);
	assert_int_equal(rate_room(&r, now), 0);
	/* Over ten seconds it is what was said, give or take what goes at once. */
	for (uint64_t k = 0; k < 1000; k++) {
		size_t room = rate_room(&r, now += SECOND / 100);

		rate_use(&r, room);
		used += room;
	}
	assert_in_range(used, 9900000, 10000000);
	/* Nothing is saved up. */
	assert_int_equal(rate_room(&r, now + 100 * SECOND), 100000);
	r = rate_of_bytes(0);
	assert_int_equal(rate_room(&r, now), SIZE_MAX);
	/* A very low one does get on. */
	r = rate_of_bytes(100);
	r.at_ns = now;
	used = 0;
	for (uint64_t k = 0; k < 20000; k++) {
		size_t room = rate_room(&r, now += SECOND / 50);

		rate_use(&r, room);
		used += room;
	}
	assert_in_range(used, 30000, 40100);
	/* What is counted: a second's worth, then one by one, whenever it is looked at. */
	r = rate_of_things(7);
	assert_int_equal(rate_room(&r, now), 7);
	used = 0;
	for (uint64_t k = 0; k < 1000; k++) {
		size_t room = rate_room(&r, now += SECOND / 30);

		rate_use(&r, room);
		used += room;
	}
	assert_in_range(used, 7 + 1000 / 30 * 7 - 1, 7 + 1000 * 7 / 30 + 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gives_addresses),
		cmocka_unit_test(is_full_at_last),
		cmocka_unit_test(keeps_results),
		cmocka_unit_test(keeps_to_a_rate),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
