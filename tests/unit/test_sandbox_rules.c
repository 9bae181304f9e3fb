#include "session/sandbox_impl.h"

#include "base/attr.h"
#include "base/json.h"

#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static struct settings settings;
static struct sandbox sandbox;

static int begin(void **state)
{
	static const char text[] = "{\"network\":{\"mode\":\"allowlist\",\"allow\":[\"a.b\"],"
				   "\"block\":[\"c.a.b\"]}}";
	struct cay_error err;

	(void)state;
	settings_init(&settings);
	sandbox = (struct sandbox){.id = "sbx_0", .state = SANDBOX_STOPPED};
	sandbox.body = calloc(1, sizeof(*sandbox.body));
	return sandbox.body
		       ? request_parse(sandbox.body, REQUEST_SANDBOX, text, sizeof(text) - 1, &err)
		       : -1;
}

static int end(void **state)
{
	(void)state;
	settings_done(&settings);
	request_body_free(sandbox.body);
	return 0;
}

static struct strv list_of(const char *rule)
{
	struct strv list = {0};

	assert_int_equal(strv_add(&list, rule), 0);
	return list;
}

/* NULL: nothing is blocked. */
static void check_rules(const char *allow, const char *block)
{
	const struct network_spec *n = &sandbox.body->spec.network;

	assert_int_equal(n->mode, NETWORK_ALLOWLIST);
	assert_int_equal(n->allow.len, 1);
	assert_string_equal(n->allow.items[0], allow);
	assert_int_equal(n->block.len, block != NULL);
	if (block)
		assert_string_equal(n->block.items[0], block);
}

static void a_list_replaces_its_own(void **state)
{
	_cleanup_(strv_done) struct strv d = list_of("d.e"), empty = {0};
	struct cay_error err;

	(void)state;
	assert_int_equal(sandbox_change_rules(&sandbox, &settings,
					      &(struct rules_asked){.allow = &d}, NULL, NULL, &err),
			 1);
	check_rules("d.e", "c.a.b");
	assert_true(sandbox.rules_changed);
	assert_int_equal(sandbox_change_rules(&sandbox, &settings,
					      &(struct rules_asked){.block = &empty}, NULL, NULL,
					      &err),
			 1);
	check_rules("d.e", NULL);
	assert_string_equal(d.items[0], "d.e"); /* was only borrowed */
}

static void what_may_not_be_had_changes_nothing(void **state)
{
	_cleanup_(strv_done) struct strv d = list_of("d.e");
	struct rules_asked asked = {.allow = &d};
	struct cay_error err;

	(void)state;
	assert_int_equal(strv_add(&settings.network_allow, "a.b"), 0);
	assert_int_equal(sandbox_change_rules(&sandbox, &settings, &asked, NULL, NULL, &err), -1);
	assert_int_equal(err.code, CAY_E_POLICY);
	check_rules("a.b", "c.a.b");
	assert_false(sandbox.rules_changed);
	sandbox.body->spec.network.mode = NETWORK_NONE;
	assert_int_equal(sandbox_change_rules(&sandbox, &settings, &asked, NULL, NULL, &err), -1);
	assert_int_equal(err.code, CAY_E_CONFLICT);
}

static int allow(const char *rule)
{
	_cleanup_(strv_done) struct strv list = {0};
	struct rules_asked asked = {.allow = &list};
	struct cay_error err;

	if (rule)
		assert_int_equal(strv_add(&list, rule), 0);
	if (sandbox_change_rules(&sandbox, &settings, &asked, NULL, NULL, &err) == 1)
		return 0;
	assert_int_equal(err.code, CAY_E_POLICY);
	assert_non_null(strstr(err.text, "network.allow"));
	return -1;
}

static void a_scopes_are_within_its_settings(void **state)
{
	struct scope_settings *scope = &settings.scopes[SCOPE_AGENT];

	(void)state;
	sandbox.body->scope = strdup("agent:x");
	assert_non_null(sandbox.body->scope);
	assert_int_equal(allow("f.g"), 0);
	assert_int_equal(strv_add(&scope->allow, "*.d.e"), 0);
	assert_int_equal(allow("x.d.e"), 0);
	check_rules("x.d.e", "c.a.b");
	assert_int_equal(allow("f.g"), -1);
	assert_int_equal(allow("*.e"), -1);
	check_rules("x.d.e", "c.a.b");
	assert_int_equal(allow(NULL), 0);
	check_rules("*.d.e", "c.a.b");
	scope->network = NETWORK_NONE;
	assert_int_equal(allow("x.d.e"), -1);
}

static void they_are_shown(void **state)
{
	_cleanup_(json_freep) struct json *j = sandbox_network_json(&sandbox);

	(void)state;
	assert_string_equal(json_str(json_get(j, "mode")), "allowlist");
	assert_string_equal(json_str(json_at(json_get(j, "allow"), 0)), "a.b");
	assert_string_equal(json_str(json_at(json_get(j, "block"), 0)), "c.a.b");
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_list_replaces_its_own),
		TEST(what_may_not_be_had_changes_nothing),
		TEST(a_scopes_are_within_its_settings),
		TEST(they_are_shown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
