#include "base/buf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static void starts_empty(void **state)
{
	struct buf b = BUF(10);

	(void)state;
	assert_string_equal(buf_str(&b), "");
	assert_int_equal(buf_append(&b, NULL, 0), 0);
	assert_string_equal(buf_str(&b), "");
	assert_int_equal(b.len, 0);
	buf_done(&b);
}

static void appends(void **state)
{
	_cleanup_(buf_done) struct buf b = BUF(1 << 20);
	char expected[3000];

	(void)state;
	memset(expected, 'x', sizeof(expected));
	for (size_t i = 0; i < sizeof(expected); i += 3)
		assert_int_equal(buf_append_str(&b, "xxx"), 0);
	assert_int_equal(b.len, sizeof(expected));
	assert_memory_equal(b.data, expected, sizeof(expected));
	assert_int_equal(b.data[b.len], '\0');
}

static void keeps_nul_bytes(void **state)
{
	_cleanup_(buf_done) struct buf b = BUF(100);

	(void)state;
	assert_int_equal(buf_append(&b, "a\0b", 3), 0);
	assert_int_equal(b.len, 3);
	assert_memory_equal(b.data, "a\0b", 4);
}

static void stops_at_the_maximum(void **state)
{
	_cleanup_(buf_done) struct buf b = BUF(5);

	(void)state;
	assert_int_equal(buf_append_str(&b, "123"), 0);
	assert_int_equal(buf_append_str(&b, "456"), -EFBIG);
	assert_string_equal(buf_str(&b), "123");
	assert_int_equal(buf_printf(&b, "%d", 456), -EFBIG);
	assert_string_equal(buf_str(&b), "123");
	assert_int_equal(buf_append_str(&b, "45"), 0);
	assert_int_equal(buf_append_str(&b, ""), 0);
	assert_string_equal(buf_str(&b), "12345");
}

static void stops_before_the_size_wraps(void **state)
{
	_cleanup_(buf_done) struct buf b = BUF(SIZE_MAX);

	(void)state;
	assert_int_equal(buf_append_str(&b, "x"), 0);
	assert_int_equal(buf_append(&b, "x", SIZE_MAX), -EFBIG);
	assert_int_equal(buf_append(&b, "x", SIZE_MAX - 1), -EFBIG);
	assert_int_equal(buf_append(&b, "x", SIZE_MAX / 2 + 1), -EFBIG);
	assert_string_equal(buf_str(&b), "x");
}

static void prints(void **state)
{
	_cleanup_(buf_done) struct buf b = BUF(1000);
	char expected[204];

	(void)state;
	assert_int_equal(buf_printf(&b, "%s-%d;", "a", 1), 0);
	assert_string_equal(buf_str(&b), "a-1;");
	assert_int_equal(buf_printf(&b, "%200d", 5), 0);
	memcpy(expected, "a-1;", 4);
	memset(expected + 4, ' ', 199);
	expected[203] = '5';
	assert_int_equal(b.len, sizeof(expected));
	assert_memory_equal(b.data, expected, sizeof(expected));
}

static void gives_away(void **state)
{
	struct buf b = BUF(4);
	char *taken;

	(void)state;
	assert_int_equal(buf_append_str(&b, "1234"), 0);
	taken = buf_take(&b);
	assert_string_equal(taken, "1234");
	free(taken);
	assert_string_equal(buf_str(&b), "");
	/* Usable again, with the same maximum. */
	assert_int_equal(buf_append_str(&b, "12345"), -EFBIG);
	assert_int_equal(buf_append_str(&b, "abcd"), 0);
	buf_done(&b);
	taken = buf_take(&b);
	assert_string_equal(taken, "");
	free(taken);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(starts_empty),
		cmocka_unit_test(appends),
		cmocka_unit_test(keeps_nul_bytes),
		cmocka_unit_test(stops_at_the_maximum),
		cmocka_unit_test(stops_before_the_size_wraps),
		cmocka_unit_test(prints),
		cmocka_unit_test(gives_away),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
