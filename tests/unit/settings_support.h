/*
 * settings_support.h: what the tests of settings share.
 */
#pragma once

#include "settings/settings.h"

#include "base/attr.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static inline void parse(struct settings *s, const char *file, const char *text)
{
	struct cay_error err;

	if (settings_parse(s, file, text, &err) < 0)
		fail_msg("%s", err.text);
}

static inline void check_refused(const char *text, const char *message, const char *hint)
{
	_cleanup_(settings_done) struct settings s;
	struct cay_error err = {0};

	settings_init(&s);
	assert_int_equal(settings_parse(&s, "F", text, &err), -1);
	assert_int_equal(err.code, CAY_E_INVALID);
	assert_string_equal(err.text, message);
	assert_string_equal(err.hint, hint);
}
