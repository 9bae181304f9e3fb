#include "base/json.h"

#include "base/attr.h"
#include "base/buf.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static void check_text(const struct json *j, const char *expected)
{
	_cleanup_(buf_done) struct buf text = BUF(10000);

	assert_int_equal(json_text(j, &text), 0);
	assert_string_equal(buf_str(&text), expected);
}

static void builds_in_order(void **state)
{
	_cleanup_(json_freep) struct json *o = json_new_object();
	struct json *list = json_new_array();

	(void)state;
	json_set_str(o, "z", "text");
	json_set_int(o, "a", INT64_MIN);
	json_set_bool(o, "m", true);
	json_set_bool(o, "b", false);
	json_set_null(o, "n");
	json_set_real(o, "r", 3.1);
	json_set_str(o, "none", NULL);
	json_add_str(list, "1");
	json_add(list, json_new_object());
	json_set(o, "list", list);
	check_text(o,
		   "{\"z\":\"text\",\"a\":-9223372036854775808,\"m\":true,\"b\":false,\"n\":null,"
		   "\"r\":3.1,\"none\":null,\"list\":[\"1\",{}]}\n");
}

static void escapes(void **state)
{
	_cleanup_(json_freep) struct json *o = json_new_object();

	(void)state;
	json_set_bytes(o, "k\"", "a\"\\\n\x01\0z", 7);
	check_text(o, "{\"k\\\"\":\"a\\\"\\\\\\n\\u0001\\u0000z\"}\n");
}

static void mends_utf8(void **state)
{
	_cleanup_(json_freep) struct json *o = json_new_object();

	(void)state;
	json_set_str(o, "s", "a\xff");
	json_set_bytes(o, "b", "\xc3\xa9\xc3", 3);
	json_set_bytes(o, "empty", NULL, 0);
	check_text(o, "{\"s\":\"a\xef\xbf\xbd\",\"b\":\"\xc3\xa9\xef\xbf\xbd\",\"empty\":\"\"}\n");
}

static void a_later_value_replaces(void **state)
{
	_cleanup_(json_freep) struct json *o = json_new_object();

	(void)state;
	json_set_int(o, "a", 1);
	json_set_int(o, "a", 2);
	check_text(o, "{\"a\":2}\n");
}

static void reals_are_json(void **state)
{
	_cleanup_(json_freep) struct json *o = json_new_object();

	(void)state;
	json_set_real(o, "nan", (double)NAN);
	json_set_real(o, "inf", (double)INFINITY);
	json_set_real(o, "whole", 2.0);
	check_text(o, "{\"nan\":null,\"inf\":null,\"whole\":2.0}\n");
}

/* A value that could not be made must not be missing in silence. */
static void failure_is_noticed_once(void **state)
{
	_cleanup_(json_freep) struct json *o = json_new_object(), *list = json_new_array();
	_cleanup_(buf_done) struct buf text = BUF(1000);

	(void)state;
	json_set_int(o, "a", 1);
	json_set(o, "b", NULL);
	assert_int_equal(json_text(o, &text), -ENOMEM);
	assert_int_equal(text.len, 0);
	json_add(list, NULL);
	assert_int_equal(json_text(list, &text), -ENOMEM);
	assert_int_equal(json_text(NULL, &text), -ENOMEM);
	check_text(o, "{\"a\":1}\n");
}

static void text_is_bounded(void **state)
{
	_cleanup_(json_freep) struct json *o = json_new_object();
	_cleanup_(buf_done) struct buf text = BUF(5), exact = BUF(7);

	(void)state;
	json_set_str(o, "a", "long enough");
	assert_int_equal(json_text(o, &text), -EFBIG);
	json_set_int(o, "a", 1);
	assert_int_equal(json_text(o, &exact), -EFBIG); /* no room for the newline */
}

static void free_takes_null(void **state)
{
	struct json *none = NULL;

	(void)state;
	json_free(NULL);
	json_freep(&none);
	assert_null(none);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(builds_in_order), cmocka_unit_test(escapes),
		cmocka_unit_test(mends_utf8),      cmocka_unit_test(a_later_value_replaces),
		cmocka_unit_test(reals_are_json),  cmocka_unit_test(failure_is_noticed_once),
		cmocka_unit_test(text_is_bounded), cmocka_unit_test(free_takes_null),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
