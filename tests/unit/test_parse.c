#include "base/parse.h"

#include "base/attr.h"

#include <errno.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static void whole_numbers(void **state)
{
	uint64_t v = 7;

	(void)state;
	assert_int_equal(parse_u64("0", 0, 10, &v), 0);
	assert_int_equal(v, 0);
	assert_int_equal(parse_u64("18446744073709551615", 0, UINT64_MAX, &v), 0);
	assert_true(v == UINT64_MAX);
	v = 7;
	assert_int_equal(parse_u64("18446744073709551616", 0, UINT64_MAX, &v), -ERANGE);
	assert_int_equal(parse_u64("11", 0, 10, &v), -ERANGE);
	assert_int_equal(parse_u64("1", 2, 10, &v), -ERANGE);
	assert_int_equal(v, 7); /* untouched on failure */
}

static void no_whole_numbers(void **state)
{
	static const char *const bad[] = {"", "-1", "+1", " 1", "1 ", "0x10", "1e3", "1.0", "one"};
	uint64_t v;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		if (parse_u64(bad[i], 0, 100, &v) != -EINVAL)
			fail_msg("'%s' was taken for a number", bad[i]);
}

static void sizes(void **state)
{
	static const struct {
		const char *text;
		uint64_t bytes;
	} good[] = {
		{"0", 0},
		{"4096", 4096},
		{"100b", 100},
		{"100k", 100ull << 10},
		{"512m", 512ull << 20},
		{"10MB", 10ull << 20},
		{"2GiB", 2ull << 30},
		{"1.5g", 3ull << 29},
		{"0.001k", 1},
		{"1t", 1ull << 40},
		{"16777215.5T", (1ull << 63) / 4 * 8 - (1ull << 39)},
	};
	static const char *const bad[] = {"", "m", "1 m", "-1m", "1mm", "1.m", ".5m", "1,5m", "1p"};
	uint64_t v;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		assert_int_equal(parse_size(good[i].text, 0, UINT64_MAX, &v), 0);
		if (v != good[i].bytes)
			fail_msg("%s gave %llu", good[i].text, (unsigned long long)v);
	}
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		if (parse_size(bad[i], 0, UINT64_MAX, &v) != -EINVAL)
			fail_msg("'%s' was taken for a size", bad[i]);
}

static void sizes_out_of_range(void **state)
{
	uint64_t v;

	(void)state;
	assert_int_equal(parse_size("1k", 1025, 2048, &v), -ERANGE);
	assert_int_equal(parse_size("2.001k", 1025, 2048, &v), -ERANGE);
	assert_int_equal(parse_size("16777216t", 0, UINT64_MAX, &v), -ERANGE);
	assert_int_equal(parse_size("99999999999999999999", 0, UINT64_MAX, &v), -ERANGE);
	assert_int_equal(parse_size("18446744073709551615", 0, UINT64_MAX, &v), -ERANGE);
}

static void durations(void **state)
{
	static const struct {
		const char *text;
		uint64_t ms;
	} good[] = {{"60", 60000},  {"1.5", 1500},   {"500ms", 500},   {"10s", 10000},
		    {"5m", 300000}, {"1h", 3600000}, {"0.5H", 1800000}};
	static const char *const bad[] = {"", "s", "1d", "1 s", "1m30s", "-1"};
	uint64_t v;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		assert_int_equal(parse_duration(good[i].text, 0, UINT64_MAX, &v), 0);
		assert_int_equal(v, good[i].ms);
	}
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		if (parse_duration(bad[i], 0, UINT64_MAX, &v) != -EINVAL)
			fail_msg("'%s' was taken for a time", bad[i]);
	assert_int_equal(parse_duration("61", 0, 60000, &v), -ERANGE);
}

static void thousandths(void **state)
{
	uint64_t v;

	(void)state;
	assert_int_equal(parse_milli("1.5", 0, 10000, &v), 0);
	assert_int_equal(v, 1500);
	assert_int_equal(parse_milli("0.01", 10, 10000, &v), 0);
	assert_int_equal(v, 10);
	assert_int_equal(parse_milli("2.3339", 0, 10000, &v), 0);
	assert_int_equal(v, 2333);
	assert_int_equal(parse_milli("0.009", 10, 10000, &v), -ERANGE);
	assert_int_equal(parse_milli("1.5x", 0, 10000, &v), -EINVAL);
	assert_int_equal(parse_milli("1.", 0, 10000, &v), -EINVAL);
	assert_int_equal(parse_milli("1.2.3", 0, 10000, &v), -EINVAL);
	assert_int_equal(parse_milli("nan", 0, 10000, &v), -EINVAL);
}

static void booleans(void **state)
{
	static const char *const yes[] = {"yes", "true", "on", "1", "YES", "True"};
	static const char *const no[] = {"no", "false", "off", "0", "Off"};
	int v;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(yes); i++) {
		v = -1;
		assert_int_equal(parse_bool(yes[i], &v), 0);
		assert_int_equal(v, 1);
	}
	for (size_t i = 0; i < ARRAY_LEN(no); i++) {
		v = -1;
		assert_int_equal(parse_bool(no[i], &v), 0);
		assert_int_equal(v, 0);
	}
	assert_int_equal(parse_bool("", &v), -EINVAL);
	assert_int_equal(parse_bool("2", &v), -EINVAL);
	assert_int_equal(parse_bool("yes ", &v), -EINVAL);
}

static void formats(void **state)
{
	char text[32], small[4];

	(void)state;
	assert_string_equal(format_size(100, text, sizeof(text)), "100 bytes");
	assert_string_equal(format_size(512ull << 20, text, sizeof(text)), "512 MiB");
	assert_string_equal(format_size(3ull << 29, text, sizeof(text)), "1.5 GiB");
	assert_string_equal(format_size(1ull << 44, text, sizeof(text)), "16 TiB");
	assert_string_equal(format_duration(200, text, sizeof(text)), "200 ms");
	assert_string_equal(format_duration(60000, text, sizeof(text)), "60 s");
	assert_string_equal(format_duration(1500, text, sizeof(text)), "1.5 s");
	assert_string_equal(format_size(100, small, sizeof(small)), "100");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(whole_numbers), cmocka_unit_test(no_whole_numbers),
		cmocka_unit_test(sizes),         cmocka_unit_test(sizes_out_of_range),
		cmocka_unit_test(durations),     cmocka_unit_test(thousandths),
		cmocka_unit_test(booleans),      cmocka_unit_test(formats),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
