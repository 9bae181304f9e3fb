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

static void defaults(void **state)
{
	_cleanup_(settings_done) struct settings s;

	(void)state;
	settings_init(&s);
	assert_int_equal(s.network_mode, NETWORK_FULL);
	assert_int_equal(s.network_allow.len + s.network_block.len + s.network_addresses.len, 0);
	assert_true(s.network_check_names);
	assert_int_equal(s.network_connections, 256);
	assert_int_equal(s.network_total_connections, 4096);
	assert_int_equal(s.network_connection_rate, 200);
	assert_int_equal(s.network_lookup_rate, 200);
	assert_int_equal(s.network_rate + s.network_total_rate + s.network_bytes, 0);
	assert_int_equal(s.network_connect_timeout, 10);
	assert_int_equal(s.network_idle_timeout, 300);
	assert_int_equal(s.tiers[TIER_SANDBOX].network, NETWORK_NONE);
	assert_int_equal(s.tiers[TIER_RESTRICTED].network, NETWORK_NONE);
	assert_int_equal(s.tiers[TIER_STANDARD].network, NETWORK_ALLOWLIST);
	assert_int_equal(s.tiers[TIER_ELEVATED].network, NETWORK_FULL);
	assert_int_equal(s.tiers[TIER_UNRESTRICTED].network, NETWORK_FULL);
}

static void networks(void **state)
{
	_cleanup_(settings_done) struct settings s;

	(void)state;
	settings_init(&s);
	parse(&s, "one",
	      "[network]\nmode=allowlist\nallow=Example.ORG.\nallow=*.example.org:*\n"
	      "block=ads.example.org:80\naddress=127.0.0.1:5432\naddress=[fd00::]/8\n"
	      "check_names=no\nconnections=1\ntotal_connections=2\nrate=1m\nbytes=2g\n"
	      "connection_rate=3\nlookup_rate=4\ntotal_rate=3m\nconnect_timeout=6\n"
	      "idle_timeout=5\n[tier standard]\nnetwork=none\n[tier  sandbox]\nnetwork=full\n");
	assert_int_equal(s.network_mode, NETWORK_ALLOWLIST);
	assert_int_equal(s.network_allow.len, 2);
	assert_string_equal(s.network_allow.items[0], "example.org");
	assert_string_equal(s.network_allow.items[1], "*.example.org:*");
	assert_int_equal(s.network_block.len, 1);
	assert_string_equal(s.network_block.items[0], "ads.example.org:80");
	assert_int_equal(s.network_addresses.len, 2);
	assert_string_equal(s.network_addresses.items[1], "[fd00::]/8");
	assert_false(s.network_check_names);
	assert_int_equal(s.network_connections, 1);
	assert_int_equal(s.network_total_connections, 2);
	assert_int_equal(s.network_connection_rate, 3);
	assert_int_equal(s.network_lookup_rate, 4);
	assert_int_equal(s.network_rate, 1 << 20);
	assert_int_equal(s.network_total_rate, 3 << 20);
	assert_true(s.network_bytes == 2ull << 30);
	assert_int_equal(s.network_connect_timeout, 6);
	assert_int_equal(s.network_idle_timeout, 5);
	assert_int_equal(s.tiers[TIER_STANDARD].network, NETWORK_NONE);
	assert_int_equal(s.tiers[TIER_SANDBOX].network, NETWORK_FULL);
	assert_int_equal(s.tiers[TIER_ELEVATED].network, NETWORK_FULL);
	assert_string_equal(settings_origin(&s, "network.allow[1]"), "one:4");
	assert_string_equal(settings_origin(&s, "tier standard.network"), "one:19");
	assert_string_equal(settings_origin(&s, "tier elevated.network"), "default");
}

static void networks_that_cannot_be(void **state)
{
	static const char rule_hint[] =
		"use example.org, *.example.org or *, with :PORT or :* behind it where 80 and 443 "
		"are not meant; other scripts in their xn-- form";
	static const char tiers[] =
		"tiers are: sandbox, restricted, standard, elevated, unrestricted";
	char hint[200];

	(void)state;
	check_refused("[network]\nmode=some\n",
		      "F:2: mode can't be 'some': expected none, allowlist or full", "");
	check_refused("[network]\nallow=1.2.3.4\n", "F:2: allow: 1.2.3.4 is no rule for domains",
		      rule_hint);
	check_refused("[network]\nblock=a:0\n", "F:2: block: a:0 is no rule for domains",
		      rule_hint);
	check_refused("[network]\naddress=localhost:80\n",
		      "F:2: address: localhost:80 is no rule for addresses",
		      "use ADDRESS[/BITS][:PORT], such as 127.0.0.1:5432, 10.1.0.0/16 or "
		      "[fd00::]/8:443");
	check_refused("[network]\nconnections=0\n",
		      "F:2: connections can't be '0': expected a number from 1 to 100000", "");
	check_refused("[tier standard]\nnetwork=all\n",
		      "F:2: network can't be 'all': expected none, allowlist or full", "");
	(void)snprintf(hint, sizeof(hint), "did you mean 'standard'? %s", tiers);
	check_refused("[tier standrad]\n", "F:1: unknown tier 'standrad'", hint);
	check_refused("[tier]\n", "F:1: a tier section needs a name", tiers);
}

static void more_rules_than_there_may_be(void **state)
{
	_cleanup_(settings_done) struct settings s;
	_cleanup_(buf_done) struct buf text = BUF(1 << 20);
	struct cay_error err;

	(void)state;
	settings_init(&s);
	assert_int_equal(buf_append_str(&text, "[network]\n"), 0);
	for (int i = 0; i < EGRESS_RULES_MAX; i++)
		assert_int_equal(buf_printf(&text, "allow=a%d.b\n", i), 0);
	parse(&s, "F", buf_str(&text));
	assert_int_equal(s.network_allow.len, EGRESS_RULES_MAX);
	assert_int_equal(settings_parse(&s, "F", "[network]\nallow=a.b\n", &err), -1);
	assert_string_equal(err.text, "F:2: more than 1000 times allow");
	parse(&s, "F", "[network]\nblock=a.b\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(defaults),
		cmocka_unit_test(networks),
		cmocka_unit_test(networks_that_cannot_be),
		cmocka_unit_test(more_rules_than_there_may_be),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
