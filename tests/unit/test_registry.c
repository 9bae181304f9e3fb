#include "core/registry.h"

#include "base/attr.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void names(void **state)
{
	static const struct {
		const char *text, *name; /* NULL: it is none */
	} rows[] = {
		{"Example.org:080", "example.org:80"},
		{"localhost", "localhost"},
		{"127.0.0.1:5000", "127.0.0.1:5000"},
		{"[0::1]:5000", "[::1]:5000"},
		{"[::1]", "[::1]"},
		{"", NULL},
		{"a/b", NULL},
		{"a:", NULL},
		{"a:0", NULL},
		{"a:65536", NULL},
		{"a:1:2", NULL},
		{"a.", NULL},
		{"::1", NULL},
		{"[::1", NULL},
		{"[1.2.3.4]", NULL},
		{"127.1", NULL},
		{"a b", NULL},
		{"user@a", NULL},
	};
	char name[REGISTRY_SIZE];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		int r = registry_parse(rows[i].text, strlen(rows[i].text), name);

		assert_int_equal(r, rows[i].name ? 0 : -EINVAL);
		if (rows[i].name)
			assert_string_equal(name, rows[i].name);
	}
	assert_int_equal(registry_parse("127.0.0.1\0x", 11, name), -EINVAL);
}

static void what_is_this_machine(void **state)
{
	static const char *const local[] = {"localhost",     "localhost:5000", "127.0.0.1",
					    "127.255.0.3:1", "[::1]",          "[::1]:80"};
	static const char *const others[] = {"localhost.example.org", "example.org", "128.0.0.1",
					     "10.0.0.1:5000",         "[::2]",       "[::12]",
					     "127.0.0.1.example.org", "localhosts:1"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(local); i++)
		assert_true(registry_is_loopback(local[i]));
	for (size_t i = 0; i < ARRAY_LEN(others); i++)
		assert_false(registry_is_loopback(others[i]));
}

static void urls(void **state)
{
	static const struct {
		const char *text, *url; /* NULL: it is none */
	} rows[] = {
		{"https://Example.org", "https://example.org"},
		{"http://a:080/", "http://a:80"},
		{"https://[::1]:5/x/y/", "https://[::1]:5/x/y"},
		{"HTTPS://a", NULL},
		{"file:///etc/passwd", NULL},
		{"ftp://a", NULL},
		{"https://", NULL},
		{"https:///x", NULL},
		{"https://u:p@a", NULL},
		{"https://a?x=y", NULL},
		{"https://a/%2e", NULL},
		{"https://a/../b", NULL},
		{"https://a//b", NULL},
		{"https://a#b", NULL},
	};
	char url[REGISTRY_URL_SIZE];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		assert_int_equal(registry_url_parse(rows[i].text, url), rows[i].url ? 0 : -EINVAL);
		if (rows[i].url)
			assert_string_equal(url, rows[i].url);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names),
		cmocka_unit_test(what_is_this_machine),
		cmocka_unit_test(urls),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
