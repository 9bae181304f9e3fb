#include "session/queue.h"

#include "base/attr.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

static const struct owner alice = {.kind = OWNER_UID, .uid = 1000};
static const struct owner bob = {.kind = OWNER_UID, .uid = 1001};
static const struct owner carol = {.kind = OWNER_KEY, .key = "key_0123456789abcdef"};

static void freep(struct queue **q)
{
	queue_free(*q);
}

/* A place that is known by a letter. */
struct waiter {
	struct queue_place place;
	char letter;
};

static void join(struct queue *q, struct waiter *w, char letter, const struct owner *o,
		 const char *lane)
{
	struct cay_error err;

	*w = (struct waiter){.place.ctx = w, .letter = letter};
	assert_int_equal(queue_join(q, o, lane, &w->place, &err), 0);
}

static bool any(void *ctx, const struct queue_place *p)
{
	(void)ctx;
	(void)p;
	return true;
}

/* All letters but one. */
static bool none_of(void *ctx, const struct queue_place *p)
{
	return ((struct waiter *)p->ctx)->letter != *(const char *)ctx;
}

static void expect(struct queue *q, const char *letters)
{
	struct queue_place *p;

	for (; *letters; letters++) {
		p = queue_next(q, any, NULL);
		assert_non_null(p);
		assert_int_equal(((struct waiter *)p->ctx)->letter, *letters);
	}
	assert_null(queue_next(q, any, NULL));
	assert_int_equal(queue_length(q), 0);
}

static void owners_take_turns(void **state)
{
	_cleanup_(freep) struct queue *q = queue_new();
	struct waiter w[7];

	(void)state;
	for (size_t i = 0; i < 4; i++)
		join(q, &w[i], (char)('a' + i), &alice, "");
	join(q, &w[4], 'B', &bob, "");
	join(q, &w[5], 'C', &bob, "");
	join(q, &w[6], 'x', &carol, "");
	assert_int_equal(queue_length(q), 7);
	expect(q, "aBxbCcd");
}

static void whoever_was_served_comes_after_who_waits(void **state)
{
	_cleanup_(freep) struct queue *q = queue_new();
	struct waiter w[4];
	struct queue_place *p;

	(void)state;
	join(q, &w[0], 'a', &alice, "");
	join(q, &w[1], 'b', &alice, "");
	p = queue_next(q, any, NULL);
	assert_ptr_equal(p, &w[0].place);
	assert_null(p->lane);
	join(q, &w[2], 'B', &bob, "");
	join(q, &w[3], 'C', &bob, "");
	expect(q, "bBC");
}

static void lanes_take_turns_in_their_owners(void **state)
{
	_cleanup_(freep) struct queue *q = queue_new();
	struct waiter w[6];

	(void)state;
	join(q, &w[0], 'a', &alice, "sbx_one");
	join(q, &w[1], 'b', &alice, "sbx_one");
	join(q, &w[2], 'c', &alice, "sbx_one");
	join(q, &w[3], 'd', &alice, "");
	join(q, &w[4], 'B', &bob, "sbx_two");
	join(q, &w[5], 'C', &bob, "sbx_two");
	expect(q, "aBdCbc");
}

static void one_that_may_not_holds_up_no_other(void **state)
{
	_cleanup_(freep) struct queue *q = queue_new();
	struct waiter w[3];
	char not = 'a';

	(void)state;
	join(q, &w[0], 'a', &alice, "");
	join(q, &w[1], 'b', &alice, "");
	join(q, &w[2], 'B', &bob, "");
	assert_ptr_equal(queue_next(q, none_of, &not ), &w[2].place);
	assert_null(queue_next(q, none_of, &not )); /* b waits behind a */
	expect(q, "ab");
}

static void any_may_leave(void **state)
{
	_cleanup_(freep) struct queue *q = queue_new();
	struct waiter w[5];

	(void)state;
	for (size_t i = 0; i < 3; i++)
		join(q, &w[i], (char)('a' + i), &alice, "");
	join(q, &w[3], 'B', &bob, "");
	join(q, &w[4], 'C', &bob, "sbx_one");
	assert_int_equal(queue_ahead(&w[2].place), 2);
	queue_leave(q, &w[1].place);
	assert_int_equal(queue_ahead(&w[2].place), 1);
	queue_leave(q, &w[1].place); /* it has left already */
	queue_leave(q, &w[3].place);
	assert_int_equal(queue_length(q), 3);
	queue_leave(q, &w[0].place);
	expect(q, "cC");
}

static void it_is_bounded(void **state)
{
	_cleanup_(freep) struct queue *q = queue_new();
	const struct queue_bounds max = {.all = 3, .each = 2};
	struct waiter w[3];
	struct cay_error err;

	(void)state;
	assert_int_equal(queue_check(q, &alice, &max, &err), 0);
	join(q, &w[0], 'a', &alice, "");
	join(q, &w[1], 'b', &alice, "sbx_one");
	assert_int_equal(queue_check(q, &alice, &max, &err), -1);
	assert_int_equal(err.code, CAY_E_RATE_LIMITED);
	assert_int_equal(queue_check(q, &bob, &max, &err), 0);
	join(q, &w[2], 'B', &bob, "");
	assert_int_equal(queue_check(q, &carol, &max, &err), -1);
	assert_int_equal(err.code, CAY_E_AT_CAPACITY);
	assert_non_null(queue_any(q));
	assert_int_equal(queue_check(q, &carol, &max, &err), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(owners_take_turns),
		cmocka_unit_test(whoever_was_served_comes_after_who_waits),
		cmocka_unit_test(lanes_take_turns_in_their_owners),
		cmocka_unit_test(one_that_may_not_holds_up_no_other),
		cmocka_unit_test(any_may_leave),
		cmocka_unit_test(it_is_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
