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

static struct json *parse(const char *text)
{
	struct json *j = NULL;
	struct json_fault fault;

	if (json_parse(text, strlen(text), 1000, &j, &fault) < 0)
		fail_msg("%s: %d:%d: %s", text, fault.line, fault.column, fault.what);
	return j;
}

static void reads_each_kind(void **state)
{
	_cleanup_(json_freep) struct json *j =
		parse("{\"s\":\"\\u00e9\",\"i\":-5,\"r\":2.5,\"t\":true,\"f\":false,"
		      "\"n\":null,\"a\":[1,\"x\"],\"o\":{\"k\":{}}}\n ");
	const struct json *a = json_get(j, "a");

	(void)state;
	assert_int_equal(json_kind(j), JSON_KIND_OBJECT);
	assert_int_equal(json_len(j), 8);
	assert_string_equal(json_str(json_get(j, "s")), "\xc3\xa9");
	assert_int_equal(json_int(json_get(j, "i")), -5);
	assert_true(json_number(json_get(j, "i")) == -5.0);
	assert_int_equal(json_kind(json_get(j, "r")), JSON_KIND_REAL);
	assert_true(json_number(json_get(j, "r")) == 2.5);
	assert_true(json_bool(json_get(j, "t")));
	assert_int_equal(json_kind(json_get(j, "f")), JSON_KIND_BOOL);
	assert_false(json_bool(json_get(j, "f")));
	assert_int_equal(json_kind(json_get(j, "n")), JSON_KIND_NULL);
	assert_int_equal(json_kind(a), JSON_KIND_ARRAY);
	assert_int_equal(json_len(a), 2);
	assert_int_equal(json_int(json_at(a, 0)), 1);
	assert_string_equal(json_str(json_at(a, 1)), "x");
	assert_null(json_at(a, 2));
	assert_int_equal(json_len(json_get(json_get(j, "o"), "k")), 0);
	assert_null(json_get(j, "none"));
}

/* A question to the wrong kind of value is no crash. */
static void wrong_kinds_answer_nothing(void **state)
{
	_cleanup_(json_freep) struct json *j = parse("[1,\"s\"]");
	const struct json *i = json_at(j, 0), *s = json_at(j, 1);
	size_t len = 9;
	void *at = NULL;
	const char *name;
	const struct json *value;

	(void)state;
	assert_null(json_str(i));
	assert_null(json_bytes(i, &len));
	assert_int_equal(len, 0);
	assert_int_equal(json_int(s), 0);
	assert_true(json_number(s) == 0.0);
	assert_false(json_bool(s));
	assert_int_equal(json_len(s), 0);
	assert_null(json_at(s, 0));
	assert_null(json_get(j, "x"));
	assert_null(json_get(NULL, "x"));
	assert_int_equal(json_kind(NULL), JSON_KIND_NULL);
	assert_false(json_next(j, &at, &name, &value));
}

static void walks_in_order(void **state)
{
	_cleanup_(json_freep) struct json *j = parse("{\"z\":0,\"a\":1,\"m\":2}");
	static const char *const names[] = {"z", "a", "m"};
	void *at = NULL;
	const char *name;
	const struct json *value;
	int n = 0;

	(void)state;
	while (json_next(j, &at, &name, &value)) {
		assert_string_equal(name, names[n]);
		assert_int_equal(json_int(value), n++);
	}
	assert_int_equal(n, 3);
}

static void integers_are_exact(void **state)
{
	_cleanup_(json_freep) struct json *j =
		parse("[9007199254740993,9223372036854775807,-9223372036854775808,-0,1e2,1.0]");

	(void)state;
	assert_true(json_int(json_at(j, 0)) == 9007199254740993);
	assert_true(json_int(json_at(j, 1)) == INT64_MAX);
	assert_true(json_int(json_at(j, 2)) == INT64_MIN);
	assert_int_equal(json_kind(json_at(j, 3)), JSON_KIND_INT);
	assert_int_equal(json_kind(json_at(j, 4)), JSON_KIND_REAL);
	assert_int_equal(json_kind(json_at(j, 5)), JSON_KIND_REAL);
}

static void nul_bytes_are_asked_for(void **state)
{
	_cleanup_(json_freep) struct json *j = parse("[\"a\\u0000b\"]");
	size_t len;

	(void)state;
	assert_null(json_str(json_at(j, 0)));
	assert_memory_equal(json_bytes(json_at(j, 0), &len), "a\0b", 4);
	assert_int_equal(len, 3);
}

static void refuses_what_is_no_json(void **state)
{
	static const struct {
		const char *text, *what;
	} bad[] = {
		{"", "expected"},
		{" ", "expected"},
		{"1", "expected"},
		{"\"s\"", "expected"},
		{"null", "expected"},
		{"{", "end of file"},
		{"{}{}", "end of file expected"},
		{"{} x", "end of file expected"},
		{"[1,]", ""},
		{"[01]", ""},
		{"[1.]", ""},
		{"[+1]", ""},
		{"[.5]", ""},
		{"[0x1]", ""},
		{"[NaN]", ""},
		{"[Infinity]", ""},
		{"[-Infinity]", ""},
		{"[1e400]", "overflow"},
		{"[9223372036854775808]", "too big"},
		{"[-9223372036854775809]", "too big"},
		{"[99999999999999999999999999]", "too big"},
		{"{\"a\":1,\"a\":2}", "duplicate"},
		{"{\"a\":1,\"\\u0061\":2}", "duplicate"},
		{"{\"a\\u0000\":1}", "NUL"},
		{"{a:1}", ""},
		{"{'a':1}", ""},
		{"[\"\\ud800\"]", ""},
		{"[\"\\udc00\"]", ""},
		{"[\"\xff\"]", "unable to decode"},
		{"[\"\xc0\x80\"]", "unable to decode"},
		{"[\"\xed\xa0\x80\"]", "unable to decode"},
		{"\xef\xbb\xbf{}", ""},
		{"[\"\n\"]", "newline"},
		{"[\"\\x\"]", "escape"},
		{"[1] // no", ""},
		{"[true", ""},
		{"[\"a", ""},
		{"[\"a\\", ""},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct json_fault fault = {0};
		struct json *j = NULL;

		if (json_parse(bad[i].text, strlen(bad[i].text), 1000, &j, &fault) != -EINVAL)
			fail_msg("'%s' is taken", bad[i].text);
		assert_null(j);
		if (!fault.what[0] || !strstr(fault.what, bad[i].what) || fault.line < 1)
			fail_msg("'%s': %d: %s", bad[i].text, fault.line, fault.what);
		for (const char *p = fault.what; *p; p++)
			assert_true((unsigned char)*p >= 0x20);
	}
}

/* A NUL in the text itself ends nothing. */
static void refuses_bare_nul(void **state)
{
	struct json_fault fault;
	struct json *j = NULL;

	(void)state;
	assert_int_equal(json_parse("{}\0", 3, 1000, &j, &fault), -EINVAL);
	assert_int_equal(json_parse("[\"a\0\"]", 6, 1000, &j, &fault), -EINVAL);
	assert_null(j);
}

static void says_where(void **state)
{
	struct json_fault fault;
	struct json *j;

	(void)state;
	assert_int_equal(json_parse("{\n \"a\": x}", 10, 1000, &j, &fault), -EINVAL);
	assert_int_equal(fault.line, 2);
	assert_true(fault.column > 1);
}

static void reading_is_bounded(void **state)
{
	static char text[2 * JSON_VALUES_MAX + 3];
	struct json_fault fault;
	struct json *j = NULL;

	(void)state;
	assert_int_equal(json_parse("[1]", 3, 2, &j, &fault), -EFBIG);
	for (size_t depth = JSON_DEPTH_MAX; depth <= JSON_DEPTH_MAX + 1; depth++) {
		memset(text, '[', depth);
		memset(text + depth, ']', depth);
		assert_int_equal(json_parse(text, 2 * depth, sizeof(text), &j, &fault),
				 depth <= JSON_DEPTH_MAX ? 0 : -EINVAL);
		json_free(j);
		j = NULL;
	}
	assert_string_equal(fault.what, "nested too deeply");
	/* Brackets in strings are none, also behind an escaped quote. */
	memset(text, '[', 200);
	memcpy(text, "[\"\\\"", 4);
	memcpy(text + 198, "\"]", 2);
	assert_int_equal(json_parse(text, 200, sizeof(text), &j, &fault), 0);
	json_free(j);
	memset(text, '[', 100000);
	assert_int_equal(json_parse(text, 100000, sizeof(text), &j, &fault), -EINVAL);
	for (size_t i = 0; i < sizeof(text); i += 2)
		memcpy(text + i, i ? ",1" : "[1", size_min(2, sizeof(text) - i));
	text[sizeof(text) - 1] = ']';
	assert_int_equal(json_parse(text, sizeof(text), sizeof(text), &j, &fault), -EINVAL);
	assert_string_equal(fault.what, "too many values");
}

static void shared_values_outlive_their_first_place(void **state)
{
	_cleanup_(json_freep) struct json *a = json_new_object(), *b = json_new_object();
	struct json *inner = json_new_object();

	(void)state;
	json_set_str(inner, "x", "y");
	json_set(a, "in", inner);
	json_set(b, "also", json_share(json_get(a, "in")));
	json_free(a);
	a = NULL;
	assert_string_equal(json_str(json_get(json_get(b, "also"), "x")), "y");
	assert_null(json_share(NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(shared_values_outlive_their_first_place),
		cmocka_unit_test(builds_in_order),
		cmocka_unit_test(escapes),
		cmocka_unit_test(mends_utf8),
		cmocka_unit_test(a_later_value_replaces),
		cmocka_unit_test(reals_are_json),
		cmocka_unit_test(failure_is_noticed_once),
		cmocka_unit_test(text_is_bounded),
		cmocka_unit_test(free_takes_null),
		cmocka_unit_test(reads_each_kind),
		cmocka_unit_test(wrong_kinds_answer_nothing),
		cmocka_unit_test(walks_in_order),
		cmocka_unit_test(integers_are_exact),
		cmocka_unit_test(nul_bytes_are_asked_for),
		cmocka_unit_test(refuses_what_is_no_json),
		cmocka_unit_test(refuses_bare_nul),
		cmocka_unit_test(says_where),
		cmocka_unit_test(reading_is_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
