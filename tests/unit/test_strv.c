#include "base/strv.h"

#include "base/attr.h"

#include <errno.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static void is_an_argv(void **state)
{
	_cleanup_(strv_done) struct strv v = {0};
	char word[] = "one";

	(void)state;
	assert_int_equal(strv_add(&v, word), 0);
	word[0] = 'X'; /* the list has its own copy */
	assert_int_equal(strv_addf(&v, "%s-%d", "two", 2), 0);
	assert_int_equal(v.len, 2);
	assert_string_equal(v.items[0], "one");
	assert_string_equal(v.items[1], "two-2");
	assert_null(v.items[2]);
}

static void done_makes_it_empty(void **state)
{
	struct strv v = {0};

	(void)state;
	strv_done(&v);
	assert_int_equal(strv_add(&v, "a"), 0);
	strv_done(&v);
	assert_int_equal(v.len, 0);
	assert_null(v.items);
	assert_int_equal(strv_add(&v, "b"), 0);
	assert_string_equal(v.items[0], "b");
	strv_done(&v);
}

static void is_bounded(void **state)
{
	_cleanup_(strv_done) struct strv v = {0};

	(void)state;
	for (size_t i = 0; i < STRV_MAX; i++)
		if (strv_add(&v, "") != 0)
			fail_msg("refused number %zu", i);
	assert_int_equal(strv_add(&v, ""), -E2BIG);
	assert_int_equal(strv_addf(&v, "%d", 1), -E2BIG);
	assert_int_equal(v.len, STRV_MAX);
	assert_null(v.items[STRV_MAX]);
}

static void holds_an_environment(void **state)
{
	_cleanup_(strv_done) struct strv v = {0};

	(void)state;
	assert_null(strv_get_env(&v, "A"));
	assert_int_equal(strv_set_env(&v, "AB", "1"), 0);
	assert_int_equal(strv_set_env(&v, "A", "2"), 0);
	assert_int_equal(v.len, 2);
	assert_string_equal(strv_get_env(&v, "A"), "2");
	assert_string_equal(strv_get_env(&v, "AB"), "1");
	assert_null(strv_get_env(&v, "ABC"));
	assert_int_equal(strv_set_env(&v, "AB", "x=y"), 0);
	assert_int_equal(v.len, 2);
	assert_string_equal(v.items[0], "AB=x=y");
	assert_string_equal(strv_get_env(&v, "AB"), "x=y");
	assert_int_equal(strv_set_env(&v, "A", ""), 0);
	assert_string_equal(strv_get_env(&v, "A"), "");
}

static void merges_an_environment(void **state)
{
	_cleanup_(strv_done) struct strv v = {0}, more = {0};

	(void)state;
	assert_int_equal(strv_add(&v, "A=1"), 0);
	assert_int_equal(strv_add(&v, "B=2"), 0);
	assert_int_equal(strv_add(&more, "B=x=y"), 0);
	assert_int_equal(strv_add(&more, "C="), 0);
	assert_int_equal(strv_merge_env(&v, &more), 0);
	assert_int_equal(v.len, 3);
	assert_string_equal(strv_get_env(&v, "A"), "1");
	assert_string_equal(strv_get_env(&v, "B"), "x=y");
	assert_string_equal(strv_get_env(&v, "C"), "");
	assert_string_equal(more.items[0], "B=x=y"); /* as it was */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(is_an_argv),
		cmocka_unit_test(done_makes_it_empty),
		cmocka_unit_test(is_bounded),
		cmocka_unit_test(holds_an_environment),
		cmocka_unit_test(merges_an_environment),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
