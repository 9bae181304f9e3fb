#include "core/limit.h"

#include "base/attr.h"

#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static const struct limit_row *row_of(const char *name)
{
	const struct limit_row *row = limit_find(name);

	assert_non_null(row);
	return row;
}

/* Each row has a name of its own, a field of its own, and a range that holds its default. */
static void rows_are_sound(void **state)
{
	struct limits l;

	(void)state;
	assert_int_equal(n_limit_rows * sizeof(uint64_t), sizeof(l));
	for (size_t i = 0; i < n_limit_rows; i++) {
		const struct limit_row *row = &limit_rows[i];

		assert_ptr_equal(limit_find(row->name), row);
		assert_true(row->min >= 1 && row->min < row->max);
		if (row->initial)
			assert_in_range(row->initial, row->min, row->max);
		memset(&l, 0, sizeof(l));
		limit_set(&l, row, UINT64_MAX);
		for (size_t k = 0; k < n_limit_rows; k++)
			assert_int_equal(limit_get(&l, &limit_rows[k]), k == i ? UINT64_MAX : 0);
	}
	assert_null(limit_find("nothing"));
	assert_null(limit_find(""));
	assert_null(limit_find("Memory"));
}

static void names_are_those_of_the_api(void **state)
{
	struct limits l = {0};

	(void)state;
	limit_set(&l, row_of("memory"), 1);
	limit_set(&l, row_of("cpus"), 2);
	limit_set(&l, row_of("pids"), 3);
	limit_set(&l, row_of("disk"), 4);
	limit_set(&l, row_of("timeout"), 5);
	limit_set(&l, row_of("cpu_time"), 6);
	limit_set(&l, row_of("output"), 7);
	limit_set(&l, row_of("open_files"), 8);
	limit_set(&l, row_of("file_size"), 9);
	assert_int_equal(l.memory_bytes, 1);
	assert_int_equal(l.cpus_milli, 2);
	assert_int_equal(l.pids, 3);
	assert_int_equal(l.disk_bytes, 4);
	assert_int_equal(l.timeout_ms, 5);
	assert_int_equal(l.cpu_time_ms, 6);
	assert_int_equal(l.output_bytes, 7);
	assert_int_equal(l.open_files, 8);
	assert_int_equal(l.file_size_bytes, 9);
}

static void check_value(const char *name, const char *text, uint64_t value)
{
	struct limits l = {0};
	struct cay_error err;

	if (limit_parse(&l, name, text, &err) < 0)
		fail_msg("%s", err.text);
	assert_int_equal(limit_get(&l, row_of(name)), value);
}

static void reads_each_unit(void **state)
{
	(void)state;
	check_value("memory", "512m", 512ull << 20);
	check_value("memory", "1.5g", 3ull << 29);
	check_value("memory", "4194304", LIMIT_MIN_MEMORY);
	check_value("cpus", "0.5", 500);
	check_value("cpus", "2", 2000);
	check_value("pids", "2", 2);
	check_value("disk", "64k", LIMIT_MIN_DISK);
	check_value("timeout", "60", 60000);
	check_value("timeout", "500ms", 500);
	check_value("cpu_time", "5m", 300000);
	check_value("output", "2", 2);
	check_value("open_files", "1048576", LIMIT_MAX_OPEN_FILES);
	check_value("file_size", "1", 1);
}

static void check_refused(const char *name, const char *text, const char *message)
{
	struct limits l = {.memory_bytes = 77, .pids = 77}, before = l;
	struct cay_error err = {0};

	assert_int_equal(limit_parse(&l, name, text, &err), -1);
	assert_int_equal(err.code, CAY_E_INVALID);
	assert_string_equal(err.text, message);
	assert_memory_equal(&l, &before, sizeof(l));
}

static void refusals_say_what_is_expected(void **state)
{
	(void)state;
	check_refused("nothing", "1", "no limit is called 'nothing'");
	check_refused("memory", "lots",
		      "the limit memory can't be 'lots': expected a size such as 512m or 1g, "
		      "from 4 MiB to 16 TiB");
	check_refused("cpus", "-1",
		      "the limit cpus can't be '-1': expected a number such as 0.5 or 2, "
		      "from 0.01 to 1024");
	check_refused("pids", "1",
		      "the limit pids can't be '1': expected a whole number, from 2 to 4194304");
	check_refused("timeout", "",
		      "the limit timeout can't be '': expected seconds, or a time such as 500ms, "
		      "10s, 5m, from 1 ms to 2592000 s");
}

/* The very ends of a range are in it, what lies past them is not, zero never is. */
static void ranges_are_exact(void **state)
{
	(void)state;
	for (size_t i = 0; i < n_limit_rows; i++) {
		const struct limit_row *row = &limit_rows[i];
		const char *unit = row->unit == LIMIT_TIME ? "ms" : "";
		struct limits l = {0};
		struct cay_error err;
		char text[64];

		if (row->unit == LIMIT_MILLI)
			continue;
		(void)snprintf(text, sizeof(text), "%llu%s", (unsigned long long)row->min, unit);
		check_value(row->name, text, row->min);
		(void)snprintf(text, sizeof(text), "%llu%s", (unsigned long long)row->max, unit);
		check_value(row->name, text, row->max);
		(void)snprintf(text, sizeof(text), "%llu%s", (unsigned long long)row->max + 1,
			       unit);
		assert_int_equal(limit_parse(&l, row->name, text, &err), -1);
		(void)snprintf(text, sizeof(text), "%llu%s", (unsigned long long)row->min - 1,
			       unit);
		assert_int_equal(limit_parse(&l, row->name, text, &err), -1);
		assert_int_equal(limit_parse(&l, row->name, "0", &err), -1);
		assert_int_equal(limit_parse(&l, row->name, "99999999999999999999999", &err), -1);
	}
	check_value("cpus", "0.01", LIMIT_MIN_CPUS_MILLI);
	check_value("cpus", "1024", LIMIT_MAX_CPUS_MILLI);
}

static void check_format(const char *name, uint64_t value, const char *expected)
{
	char text[32];

	assert_string_equal(limit_format(row_of(name), value, text, sizeof(text)), expected);
}

static void formats_each_unit(void **state)
{
	(void)state;
	check_format("memory", 512ull << 20, "512 MiB");
	check_format("cpus", 1500, "1.5");
	check_format("cpus", 10, "0.01");
	check_format("timeout", 60000, "60 s");
	check_format("timeout", 200, "200 ms");
	check_format("pids", 4194304, "4194304");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_are_sound),   cmocka_unit_test(names_are_those_of_the_api),
		cmocka_unit_test(reads_each_unit),  cmocka_unit_test(refusals_say_what_is_expected),
		cmocka_unit_test(ranges_are_exact), cmocka_unit_test(formats_each_unit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
