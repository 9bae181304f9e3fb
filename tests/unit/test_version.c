#include "spec/version.h"

#include "base/attr.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static int sign(int n)
{
	return (n > 0) - (n < 0);
}

/* Each is above all that stand in front of it. */
static void versions_in_order(void **state)
{
	static const char *const order[] = {
		"",
		"0",
		"0.9",
		"1.0",
		"3",
		"3.0",
		"3.6.15",
		"3.9",
		"3.9.18",
		"3.10rc1",
		"3.10",
		"3.10+",
		"3.10.0",
		"3.10.0.1",
		"3.10.9",
		"3.10.13",
		"3.11.0a2",
		"3.11.0b1",
		"3.11.0rc1",
		"3.11.0rc2",
		"3.11.0rc10",
		"3.11.0",
		"3.11.0+",
		"3.11.1",
		"12.2.0",
		"20.10.0",
		"22.7",
		"22.7.0",
		"22.10",
		"4294967296.0",
		"99999999999999999999.1",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(order); i++)
		for (size_t k = 0; k < ARRAY_LEN(order); k++)
			assert_int_equal(sign(version_compare(order[i], order[k])),
					 sign((int)i - (int)k));
}

static void zeros_in_front_mean_nothing(void **state)
{
	(void)state;
	assert_int_equal(version_compare("3.09.1", "3.9.1"), 0);
	assert_int_equal(version_compare("0", "00"), 0);
	assert_true(version_compare("3.010", "3.9") > 0);
	assert_true(version_compare("3.00", "3") > 0);
}

/* As the options of a row are decided about: from since on, below before. */
static void since_and_before(void **state)
{
	(void)state;
	assert_true(version_compare("20.10.0", "20.10") >= 0);
	assert_true(version_compare("20.20.2", "20.10") >= 0);
	assert_false(version_compare("20.9.0", "20.10") >= 0);
	assert_true(version_compare("22.6.0", "22.7") < 0);
	assert_false(version_compare("22.7.0", "22.7") < 0);
	assert_false(version_compare("22.22.0", "22.7") < 0);
	assert_true(version_compare("", "20.10") < 0);
}

static void requests_are_prefixes_on_dots(void **state)
{
	(void)state;
	assert_true(version_matches("3.1.4", "3.1"));
	assert_true(version_matches("3.1.4", "3"));
	assert_true(version_matches("3.1.4", "3.1.4"));
	assert_true(version_matches("3.12.1+", "3.12.1"));
	assert_false(version_matches("3.11.2", "3.1"));
	assert_false(version_matches("3.1rc1", "3.1"));
	assert_false(version_matches("3.1", "3.1.4"));
	assert_false(version_matches("", "3"));
}

static void requests_are_digits_and_dots(void **state)
{
	static const char *const fine[] = {"3", "3.12", "3.12.1", "20", "0.0"};
	static const char *const wrong[] = {
		"",   ".",  "3.", ".3",      "3..1", "3.x",
		"v3", "3 ", "-3", "3.12rc1", "3.1*", "31111111111111111111111111111111"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(fine); i++)
		assert_true(version_is_request(fine[i]));
	for (size_t i = 0; i < ARRAY_LEN(wrong); i++)
		assert_false(version_is_request(wrong[i]));
}

static void versions_may_have_a_suffix(void **state)
{
	static const char *const fine[] = {"3", "3.12.1", "3.13.0rc1", "3.13.0rc1+", "1.22rc2"};
	static const char *const wrong[] = {
		"",          ".3",     "v3",         "3.12;",
		"3.12 ",     "3.12/x", "3.1\033[1m", "rc1",
		"2018.html", "3.",     "3..1",       "3.11.99999999999999999999999999999"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(fine); i++)
		assert_true(version_valid(fine[i]));
	for (size_t i = 0; i < ARRAY_LEN(wrong); i++)
		assert_false(version_valid(wrong[i]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(versions_in_order),
		cmocka_unit_test(zeros_in_front_mean_nothing),
		cmocka_unit_test(since_and_before),
		cmocka_unit_test(requests_are_prefixes_on_dots),
		cmocka_unit_test(requests_are_digits_and_dots),
		cmocka_unit_test(versions_may_have_a_suffix),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
