#include "core/domain.h"

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
		{"example.org", "example.org"},
		{"Example.ORG.", "example.org"},
		{"xn--bcher-kva.example", "xn--bcher-kva.example"},
		{"a", "a"},
		{"1a.2b", "1a.2b"},
		{"1.2.3.4.example", "1.2.3.4.example"},
		{"0xfg", "0xfg"},
		{"", NULL},
		{".", NULL},
		{"example.org..", NULL},
		{".example.org", NULL},
		{"a..b", NULL},
		{"-a.b", NULL},
		{"a-.b", NULL},
		{"a_b.c", NULL},
		{"a b", NULL},
		{"a\n.b", NULL},
		{"b\xc3\xbc"
		 "cher.example",
		 NULL},
		{"127.0.0.1", NULL},
		{"127.1", NULL},
		{"2130706433", NULL},
		{"0x7f000001", NULL},
		{"0X7F.1", NULL},
		{"0177.0.0.1", NULL},
		{"a.0x", NULL},
		{"[::1]", NULL},
		{"::ffff:1.2.3.4", NULL},
	};
	char ret[DOMAIN_SIZE];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		int r = domain_name(rows[i].text, strlen(rows[i].text), ret);

		assert_int_equal(r, rows[i].name ? 0 : -EINVAL);
		if (rows[i].name)
			assert_string_equal(ret, rows[i].name);
	}
	assert_int_equal(domain_name("evil.com\0.good.com", 18, ret), -EINVAL);
}

static void long_names(void **state)
{
	char text[300], ret[DOMAIN_SIZE];

	(void)state;
	memset(text, 'a', sizeof(text));
	for (size_t i = 63; i < sizeof(text); i += 64)
		text[i] = '.';
	assert_int_equal(domain_name(text, 253, ret), 0);
	assert_int_equal(domain_name(text, 254, ret), -EINVAL);
	text[63] = 'a';
	assert_int_equal(domain_name(text, 200, ret), -EINVAL);
}

static void rules_as_they_are_written(void **state)
{
	static const char *const good[] = {
		"example.org",        "*.example.org",  "*", "*:*", "*:22",
		"git.example.org:22", "*.example.org:*"};
	static const char *const bad[] = {
		"",    "*.",  "**",  "*example.org", "a.*.b",     "a:0",   "a:65536", "a:",
		"a:b", ":80", "*.*", "1.2.3.4",      "[::1]:443", "a:1:2", "http://a"};
	struct domain_rule r;
	struct cay_error err;
	char text[DOMAIN_RULE_SIZE];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		assert_int_equal(domain_rule_parse(good[i], &r, &err), 0);
		domain_rule_text(&r, text);
		assert_string_equal(text, good[i]);
	}
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		assert_int_equal(domain_rule_parse(bad[i], &r, &err), -1);
		assert_int_equal(err.code, CAY_E_INVALID);
	}
}

static struct domain_rule rule(const char *text)
{
	struct domain_rule r;
	struct cay_error err;

	assert_int_equal(domain_rule_parse(text, &r, &err), 0);
	return r;
}

static void what_rules_match(void **state)
{
	static const struct {
		const char *rule, *name;
		uint16_t port;
		bool allows, blocks;
	} rows[] = {
		{"example.org", "example.org", 443, true, true},
		{"example.org", "example.org", 80, true, true},
		{"example.org", "example.org", 22, false, true},
		{"example.org", "www.example.org", 443, false, false},
		{"*.example.org", "www.example.org", 443, true, true},
		{"*.example.org", "a.b.example.org", 443, true, true},
		{"*.example.org", "example.org", 443, false, false},
		{"*.example.org", "goodexample.org", 443, false, false},
		{"*.example.org", "example.org.evil", 443, false, false},
		{"example.org:22", "example.org", 22, true, true},
		{"example.org:22", "example.org", 443, false, false},
		{"example.org:*", "example.org", 1, true, true},
		{"*", "anything", 443, true, true},
		{"*", "anything", 8080, false, true},
		{"*:8080", "anything", 8080, true, true},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct domain_rule r = rule(rows[i].rule);

		assert_int_equal(domain_rule_allows(&r, rows[i].name, rows[i].port),
				 rows[i].allows);
		assert_int_equal(domain_rule_blocks(&r, rows[i].name, rows[i].port),
				 rows[i].blocks);
	}
}

static void what_rules_cover(void **state)
{
	static const struct {
		const char *outer, *inner;
		bool covers;
	} rows[] = {
		{"*", "example.org", true},
		{"*", "*.example.org", true},
		{"*", "*", true},
		{"*", "*:22", false},
		{"*:*", "*:22", true},
		{"*:*", "*", true},
		{"*.example.org", "*", false},
		{"*.example.org", "a.example.org", true},
		{"*.example.org", "*.a.example.org", true},
		{"*.example.org", "*.example.org", true},
		{"*.example.org", "example.org", false},
		{"*.a.example.org", "*.example.org", false},
		{"example.org", "*.example.org", false},
		{"example.org", "example.org:443", true},
		{"example.org", "example.org:22", false},
		{"example.org:443", "example.org", false},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct domain_rule outer = rule(rows[i].outer), inner = rule(rows[i].inner);

		assert_int_equal(domain_rule_covers(&outer, &inner), rows[i].covers);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names),
		cmocka_unit_test(long_names),
		cmocka_unit_test(rules_as_they_are_written),
		cmocka_unit_test(what_rules_match),
		cmocka_unit_test(what_rules_cover),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
