#include "settings/settings.h"

#include "base/attr.h"
#include "base/buf.h"

#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "settings_support.h"

static void images_are_checked(void **state)
{
	_cleanup_(settings_done) struct settings s;

	(void)state;
	settings_init(&s);
	assert_int_equal(s.images_pull, PULL_MISSING);
	assert_int_equal(s.images_budget, 0);
	parse(&s, "F",
	      "[images]\nbudget = 20g\npull = never\nallow = ghcr.io/me/*\nalias = a=b:1\n");
	assert_int_equal(s.images_budget, 20ull << 30);
	assert_int_equal(s.images_pull, PULL_NEVER);
	check_refused("[images]\nstore = images\n",
		      "F:2: store can't be 'images': expected an absolute path", "");
	check_refused("[images]\npull = always\n",
		      "F:2: pull can't be 'always': expected missing or never", "");
	check_refused("[images]\nallow = a b\n",
		      "F:2: allow can't be 'a b': expected an image such as python:3.12-slim", "");
	check_refused("[images]\nalias = A=b\n",
		      "F:2: alias can't be 'A=b': expected NAME=IMAGE, the name in small letters",
		      "");
	check_refused("[images]\nalias = a=\n",
		      "F:2: alias can't be 'a=': expected NAME=IMAGE, the name in small letters",
		      "");
}

static void registries_are_checked(void **state)
{
	_cleanup_(settings_done) struct settings s;

	(void)state;
	settings_init(&s);
	parse(&s, "F", "[images]\nmirror = Docker.io=http://[::1]:5000/a/\nplain_http = B:05\n");
	assert_string_equal(s.images_mirrors.items[0], "docker.io=http://[::1]:5000/a");
	assert_string_equal(s.images_plain_http.items[0], "b:5");
	check_refused("[images]\nmirror = https://a.b\n",
		      "F:2: mirror can't be 'https://a.b': expected REGISTRY=URL, such as "
		      "docker.io=https://mirror.example.org",
		      "");
	check_refused("[images]\nmirror = a=file:///x\n",
		      "F:2: mirror can't be 'a=file:///x': expected REGISTRY=URL, such as "
		      "docker.io=https://mirror.example.org",
		      "");
	check_refused("[images]\nplain_http = http://a\n",
		      "F:2: plain_http can't be 'http://a': expected a registry such as "
		      "example.org:5000",
		      "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(images_are_checked),
		cmocka_unit_test(registries_are_checked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
