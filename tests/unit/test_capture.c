#include "core/capture.h"

#include "base/attr.h"
#include "base/buf.h"

#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#define TOTAL_MAX 5000

/* What should be kept of all: everything, or the first and the last half of the limit. */
static void model(const char *all, size_t len, size_t limit, struct buf *out)
{
	size_t tail = limit / 2, head = limit - tail;

	if (len <= limit) {
		assert_int_equal(buf_append(out, all, len), 0);
		return;
	}
	assert_int_equal(buf_append(out, all, head), 0);
	assert_int_equal(buf_append(out, all + len - tail, tail), 0);
}

static void compare(const struct capture *c, const char *all, size_t len, size_t limit)
{
	_cleanup_(buf_done) struct buf got = BUF(TOTAL_MAX), expected = BUF(TOTAL_MAX);

	assert_int_equal(capture_text(c, &got), 0);
	model(all, len, limit, &expected);
	assert_int_equal(got.len, expected.len);
	assert_memory_equal(buf_str(&got), buf_str(&expected), expected.len);
	assert_int_equal(capture_truncated(c), len > limit);
	assert_true(c->dropped == (len > limit ? len - limit : 0));
}

/* Compared after every chunk, so that the ring is seen in every position. */
static void one_round(const char *all, size_t total, size_t limit, size_t chunk_max)
{
	_cleanup_(capture_done) struct capture c;
	size_t len = 0;

	capture_init(&c, limit);
	compare(&c, all, 0, limit);
	while (len < total) {
		size_t n = size_min((size_t)rand() % (chunk_max + 1), total - len);

		assert_int_equal(capture_add(&c, all + len, n), 0);
		len += n;
		compare(&c, all, len, limit);
	}
}

static void agrees_with_the_model(void **state)
{
	static const size_t limits[] = {0, 1, 2, 3, 7, 10, 64, 1023, 1024, 1025, 4999, 5000, 6000};
	static const size_t chunks[] = {1, 3, 40, 1500, TOTAL_MAX};
	char all[TOTAL_MAX];

	(void)state;
	srand(7);
	for (size_t i = 0; i < sizeof(all); i++)
		all[i] = (char)rand();
	for (size_t i = 0; i < ARRAY_LEN(limits); i++)
		for (size_t j = 0; j < ARRAY_LEN(chunks); j++)
			one_round(all, chunks[j] == 1 ? 200 : sizeof(all), limits[i], chunks[j]);
}

static void keeps_head_and_tail(void **state)
{
	_cleanup_(capture_done) struct capture c;
	_cleanup_(buf_done) struct buf out = BUF(100);

	(void)state;
	capture_init(&c, 5);
	assert_int_equal(capture_add(&c, "abcdefgh", 8), 0);
	assert_int_equal(capture_text(&c, &out), 0);
	assert_string_equal(buf_str(&out), "abcgh");
}

static void done_leaves_it_empty(void **state)
{
	struct capture c;

	(void)state;
	capture_init(&c, 4);
	assert_int_equal(capture_add(&c, "abcdef", 6), 0);
	capture_done(&c);
	assert_null(c.head);
	assert_null(c.tail);
	assert_false(capture_truncated(&c));
	capture_done(&c);
}

/* A large limit costs nothing until there is output. */
static void grows_on_demand(void **state)
{
	_cleanup_(capture_done) struct capture c;

	(void)state;
	capture_init(&c, (size_t)1 << 30);
	assert_int_equal(capture_add(&c, "x", 1), 0);
	assert_true(c.head_cap + c.tail_cap <= 4096);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(agrees_with_the_model),
		cmocka_unit_test(keeps_head_and_tail),
		cmocka_unit_test(done_leaves_it_empty),
		cmocka_unit_test(grows_on_demand),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
