#include "core/address.h"

#include "base/attr.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void as_they_are_written(void **state)
{
	static const struct {
		const char *text, *back; /* NULL: it is none */
	} rows[] = {
		{"1.2.3.4", "1.2.3.4"},
		{"255.255.255.255", "255.255.255.255"},
		{"::ffff:1.2.3.4", "1.2.3.4"},
		{"::FFFF:102:304", "1.2.3.4"},
		{"::1", "::1"},
		{"2001:DB8:0:0:0:0:0:1", "2001:db8::1"},
		{"", NULL},
		{"1.2.3", NULL},
		{"1.2.3.4.5", NULL},
		{"1.2.3.256", NULL},
		{"01.2.3.4", NULL},
		{"0x1.2.3.4", NULL},
		{"16909060", NULL},
		{" 1.2.3.4", NULL},
		{"1.2.3.4 ", NULL},
		{"[::1]", NULL},
		{"fe80::1%lo", NULL},
		{"1::2::3", NULL},
		{"::12345", NULL},
		{"example.org", NULL},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct address a;
		char text[ADDRESS_SIZE];

		assert_int_equal(address_parse(rows[i].text, &a), rows[i].back ? 0 : -EINVAL);
		if (!rows[i].back)
			continue;
		address_text(&a, text);
		assert_string_equal(text, rows[i].back);
	}
}

static struct address address(const char *text)
{
	struct address a;

	assert_int_equal(address_parse(text, &a), 0);
	return a;
}

static void which_are_public(void **state)
{
	static const struct {
		const char *text;
		bool is_public;
	} rows[] = {
		{"0.0.0.0", false},
		{"0.255.255.255", false},
		{"1.0.0.0", true},
		{"9.255.255.255", true},
		{"10.0.0.0", false},
		{"10.255.255.255", false},
		{"11.0.0.0", true},
		{"100.63.255.255", true},
		{"100.64.0.0", false},
		{"100.100.100.200", false},
		{"100.127.255.255", false},
		{"100.128.0.0", true},
		{"127.0.0.1", false},
		{"127.255.255.255", false},
		{"128.0.0.0", true},
		{"168.63.129.15", true},
		{"168.63.129.16", false},
		{"168.63.129.17", true},
		{"169.253.255.255", true},
		{"169.254.169.254", false},
		{"169.255.0.0", true},
		{"172.15.255.255", true},
		{"172.16.0.0", false},
		{"172.31.255.255", false},
		{"172.32.0.0", true},
		{"192.0.0.192", false},
		{"192.0.1.0", true},
		{"192.0.2.1", false},
		{"192.88.99.1", false},
		{"192.167.255.255", true},
		{"192.168.0.0", false},
		{"192.168.255.255", false},
		{"192.169.0.0", true},
		{"198.17.255.255", true},
		{"198.18.0.1", false},
		{"198.19.255.255", false},
		{"198.20.0.0", true},
		{"198.51.100.1", false},
		{"203.0.113.255", false},
		{"223.255.255.255", true},
		{"224.0.0.1", false},
		{"239.255.255.255", false},
		{"240.0.0.1", false},
		{"255.255.255.255", false},
		{"::ffff:127.0.0.1", false},
		{"::ffff:8.8.8.8", true},
		{"::", false},
		{"::1", false},
		{"::8.8.8.8", false},
		{"::ffff:0:8.8.8.8", false},
		{"64:ff9b::8.8.8.8", true},
		{"64:ff9b::10.0.0.1", false},
		{"64:ff9b::169.254.169.254", false},
		{"64:ff9b:1::8.8.8.8", false},
		{"64:ff9b:0:0:0:1:808:808", false},
		{"100::1", false},
		{"1fff:ffff::1", false},
		{"2000::1", true},
		{"2001::1", false},
		{"2001:0:808:808::", false},
		{"2001:1ff:ffff::1", false},
		{"2001:200::1", true},
		{"2001:db7:ffff::1", true},
		{"2001:db8::1", false},
		{"2001:db9::1", true},
		{"2002:808:808::1", true},
		{"2002:7f00:1::1", false},
		{"2002:c0a8:1::1", false},
		{"2002:a9fe:a9fe::", false},
		{"2606:4700::1111", true},
		{"3ffe:ffff::1", true},
		{"3fff::1", false},
		{"3fff:1000::1", true},
		{"4000::1", false},
		{"5f00::1", false},
		{"fc00::1", false},
		{"fd00:ec2::254", false},
		{"fe80::1", false},
		{"fec0::1", false},
		{"ff02::1", false},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct address a = address(rows[i].text);

		if (address_is_public(&a) != rows[i].is_public)
			fail_msg("%s", rows[i].text);
	}
}

static void what_rules_match(void **state)
{
	static const struct {
		const char *rule, *address;
		uint16_t port;
		bool matches;
	} rows[] = {
		{"127.0.0.1:5432", "127.0.0.1", 5432, true},
		{"127.0.0.1:5432", "::ffff:127.0.0.1", 5432, true},
		{"127.0.0.1:5432", "127.0.0.1", 5433, false},
		{"127.0.0.1:5432", "127.0.0.2", 5432, false},
		{"127.0.0.1", "127.0.0.1", 1, true},
		{"127.0.0.1", "::1", 1, false},
		{"10.1.0.0/16", "10.1.255.255", 443, true},
		{"10.1.0.0/16", "10.2.0.0", 443, false},
		{"10.1.0.0/16:443", "10.1.0.1", 443, true},
		{"10.1.0.0/16:443", "10.1.0.1", 80, false},
		{"172.16.0.0/12", "172.31.0.1", 80, true},
		{"172.16.0.0/12", "172.32.0.1", 80, false},
		{"0.0.0.0/0", "10.0.0.1", 80, true},
		{"0.0.0.0/0", "::1", 80, false},
		{"[::]/0", "fe80::1", 80, true},
		{"[::]/0", "127.0.0.1", 80, false},
		{"[::1]:80", "::1", 80, true},
		{"[fd00::]/8:443", "fd12::1", 443, true},
		{"[fd00::]/8:443", "fc12::1", 443, false},
		{"[::ffff:10.0.0.0]/104", "10.1.2.3", 1, true},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct address a = address(rows[i].address);
		struct address_rule r;
		struct cay_error err;

		assert_int_equal(address_rule_parse(rows[i].rule, &r, &err), 0);
		if (address_rule_matches(&r, &a, rows[i].port) != rows[i].matches)
			fail_msg("%s, %s", rows[i].rule, rows[i].address);
	}
}

static void what_is_no_rule(void **state)
{
	static const char *const bad[] = {
		"",
		"/8",
		":80",
		"[",
		"[]",
		"[::1",
		"::1",
		"[1.2.3.4]",
		"[::1]80",
		"[::1]x",
		"10.0.0.1/8",
		"10.0.0.0/33",
		"10.0.0.0/",
		"10.0.0.0/x",
		"10.0.0.0/0008",
		"10.0.0.0:80/8",
		"10.0.0.1:0",
		"10.0.0.1:65536",
		"10.0.0.1:",
		"10.0.0.1:1:2",
		"10.0.0.1:80 ",
		"[::1]/129",
		"[::ffff:0.0.0.0]/80",
		"example.org:80",
		"[::1][::1]",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct address_rule r = {.port = 7};
		struct cay_error err;

		assert_int_equal(address_rule_parse(bad[i], &r, &err), -1);
		assert_int_equal(err.code, CAY_E_INVALID);
		assert_int_equal(r.port, 7);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(as_they_are_written),
		cmocka_unit_test(which_are_public),
		cmocka_unit_test(what_rules_match),
		cmocka_unit_test(what_is_no_rule),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
