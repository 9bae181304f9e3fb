#include "core/error.h"

#include "base/buf.h"
#include "base/json.h"

#include <errno.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static void fails_with_text(void **state)
{
	struct cay_error err;

	(void)state;
	memset(&err, 'x', sizeof(err));
	assert_int_equal(cay_fail(&err, CAY_E_POLICY, 0, "mount of %s", "/etc"), -1);
	assert_int_equal(err.code, CAY_E_POLICY);
	assert_int_equal(err.sys_errno, 0);
	assert_string_equal(err.text, "mount of /etc");
	assert_string_equal(err.hint, "");
}

static void fails_with_errno(void **state)
{
	struct cay_error err;

	(void)state;
	assert_int_equal(cay_fail(&err, CAY_E_INTERNAL, ENOENT, "open %s", "x"), -1);
	assert_int_equal(err.sys_errno, ENOENT);
	assert_string_equal(err.text, "open x: No such file or directory");
}

static void wraps(void **state)
{
	struct cay_error err;

	(void)state;
	(void)cay_fail(&err, CAY_E_IMAGE, ENOENT, "inner");
	(void)cay_hint(&err, "do %s", "this");
	assert_int_equal(cay_wrap(&err, "outer %d", 1), -1);
	assert_string_equal(err.text, "outer 1: inner: No such file or directory");
	assert_string_equal(err.hint, "do this");
	assert_int_equal(err.code, CAY_E_IMAGE);
	assert_int_equal(err.sys_errno, ENOENT);
}

static void hint_of_an_earlier_failure_goes(void **state)
{
	struct cay_error err;

	(void)state;
	(void)cay_fail(&err, CAY_E_INVALID, 0, "a");
	assert_int_equal(cay_hint(&err, "old"), -1);
	(void)cay_fail(&err, CAY_E_INVALID, 0, "b");
	assert_string_equal(err.hint, "");
}

static void long_texts_are_cut(void **state)
{
	char text[sizeof(((struct cay_error *)0)->text) + 100];
	const size_t max = sizeof(((struct cay_error *)0)->text) - 1;
	struct cay_error err;

	(void)state;
	memset(text, 'a', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	(void)cay_fail(&err, CAY_E_INVALID, ENOENT, "%s", text);
	assert_int_equal(strlen(err.text), max);
	(void)cay_hint(&err, "%s", text);
	assert_int_equal(strlen(err.hint), sizeof(err.hint) - 1);
	/* The context is what stays. */
	(void)cay_wrap(&err, "outer");
	assert_int_equal(strlen(err.text), max);
	assert_memory_equal(err.text, "outer: aaa", 10);
	for (size_t n = max - 5; n <= max + 1; n++) {
		(void)cay_fail(&err, CAY_E_INVALID, 0, "inner");
		(void)cay_wrap(&err, "%.*s", (int)n, text);
		assert_in_range(strlen(err.text), max - 5, max);
		assert_memory_equal(err.text, text, max - 5);
	}
}

/* The names and numbers of INTERFACE.md. */
static void codes_have_names(void **state)
{
	static const struct {
		enum cay_code code;
		const char *name;
		int http;
	} rows[] = {
		{CAY_E_INVALID, "invalid_request", 400},
		{CAY_E_UNAUTHORIZED, "unauthorized", 401},
		{CAY_E_POLICY, "policy_denied", 403},
		{CAY_E_NOT_FOUND, "not_found", 404},
		{CAY_E_IMAGE, "image_not_found", 404},
		{CAY_E_RUNTIME, "runtime_not_found", 404},
		{CAY_E_CONFLICT, "conflict", 409},
		{CAY_E_EXPIRED, "expired", 410},
		{CAY_E_TOO_LARGE, "too_large", 413},
		{CAY_E_UNSUPPORTED, "unsupported", 422},
		{CAY_E_NOT_ENFORCEABLE, "not_enforceable", 422},
		{CAY_E_RATE_LIMITED, "rate_limited", 429},
		{CAY_E_AT_CAPACITY, "at_capacity", 503},
		{CAY_E_ENGINE, "engine_unavailable", 503},
		{CAY_E_INTERNAL, "internal", 500},
	};

	(void)state;
	assert_int_equal(ARRAY_LEN(rows) + 1, CAY_CODES);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		assert_string_equal(cay_code_name(rows[i].code), rows[i].name);
		assert_int_equal(cay_code_http(rows[i].code), rows[i].http);
	}
}

static void is_an_object(void **state)
{
	_cleanup_(json_freep) struct json *j = NULL;
	_cleanup_(buf_done) struct buf text = BUF(1000);
	struct cay_error err;

	(void)state;
	(void)cay_fail(&err, CAY_E_POLICY, 0, "mount of \"%s\"", "/etc\xff");
	(void)cay_hint(&err, "no");
	j = cay_error_json(&err, NULL);
	assert_int_equal(json_text(j, &text), 0);
	assert_string_equal(buf_str(&text),
			    "{\"error\":{\"code\":\"policy_denied\","
			    "\"message\":\"mount of \\\"/etc\xef\xbf\xbd\\\"\",\"hint\":\"no\","
			    "\"details\":{},\"request_id\":null}}\n");
}

/* What only an exit code tells is in the object, too. */
static void details_have_the_exit_code(void **state)
{
	_cleanup_(json_freep) struct json *j = NULL;
	struct cay_error err;

	(void)state;
	(void)cay_fail(&err, CAY_E_NOT_FOUND, 0, "x");
	err.exit_code = 127;
	j = cay_error_json(&err, NULL);
	assert_int_equal(json_int(json_get(json_get(json_get(j, "error"), "details"), "exit_code")),
			 127);
}

static void foreign_bytes_are_mended(void **state)
{
	struct cay_error err;

	(void)state;
	memset(&err, 0xff, sizeof(err));
	cay_error_mend(&err);
	assert_string_equal(cay_code_name(err.code), "internal");
	assert_int_equal(err.exit_code, 125);
	assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
	assert_int_equal(strlen(err.hint), sizeof(err.hint) - 1);

	(void)cay_fail(&err, CAY_E_NOT_FOUND, 0, "no such program");
	err.exit_code = 127;
	cay_error_mend(&err);
	assert_int_equal(err.code, CAY_E_NOT_FOUND);
	assert_int_equal(err.exit_code, 127);
	assert_string_equal(err.text, "no such program");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fails_with_text),
		cmocka_unit_test(fails_with_errno),
		cmocka_unit_test(wraps),
		cmocka_unit_test(hint_of_an_earlier_failure_goes),
		cmocka_unit_test(long_texts_are_cut),
		cmocka_unit_test(codes_have_names),
		cmocka_unit_test(is_an_object),
		cmocka_unit_test(details_have_the_exit_code),
		cmocka_unit_test(foreign_bytes_are_mended),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
