#include "policy/bounds.h"

#include "base/attr.h"
#include "policy/plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

static struct bounds parse(const char *text)
{
	struct cay_error err = {0};
	struct bounds b;

	if (bounds_parse(&b, text, strlen(text), &err) < 0)
		fail_msg("%s: %s", text, err.text);
	return b;
}

static void bounds_are_read(void **state)
{
	_cleanup_(bounds_done) struct bounds b = parse(
		"{\"engines\":[\"native\"],\"images\":[\"host\",\"debian:12\"],\"mounts\":\"ro\","
		"\"networks\":[\"allowlist\"],\"allow\":[\"A.b\",\"*.c:22\"],\"block\":[\"d\"],\"limits\":{\"memory\":\"1g\",\"cpus\":0.5}}");
	_cleanup_(bounds_done) struct bounds none = parse("{}");

	(void)state;
	assert_true(b.has_engines && b.has_images && b.has_networks);
	assert_int_equal(b.engines, 1u << ENGINE_NATIVE);
	assert_int_equal(b.images.len, 2);
	assert_int_equal(b.mounts, MOUNTS_READ);
	assert_int_equal(b.networks, 1u << NETWORK_NONE | 1u << NETWORK_ALLOWLIST);
	assert_true(b.has_allow && !b.has_tier);
	assert_int_equal(b.allow.len, 2);
	assert_string_equal(b.allow.items[0], "a.b");
	assert_string_equal(b.allow.items[1], "*.c:22");
	assert_int_equal(b.block.len, 1);
	assert_string_equal(b.block.items[0], "d");
	assert_int_equal(b.maximum.memory_bytes, 1 << 30);
	assert_int_equal(b.maximum.cpus_milli, 500);
	assert_int_equal(b.maximum.pids, 0);
	assert_false(none.has_engines || none.has_images || none.has_networks || none.has_allow);
	assert_int_equal(none.mounts, MOUNTS_AS_SET);
}

static void wrong_bounds_are_refused(void **state)
{
	static const char *const bad[][2] = {
		{"", "bounds: not JSON"},
		{"[]", "bounds: expected an object"},
		{"{\"engine\":[]}", "bounds.engine: no field is called so"},
		{"{\"engines\":\"native\"}", "bounds.engines: expected an array"},
		{"{\"engines\":[\"native\",\"auto\"]}", "bounds.engines[1]: no such value"},
		{"{\"engines\":[\"\"]}", "bounds.engines[0]: no such value"},
		{"{\"images\":[1]}", "bounds.images[0]: expected a string"},
		{"{\"mounts\":true}", "bounds.mounts: expected a string"},
		{"{\"mounts\":\"all\"}", "bounds.mounts: no such value"},
		{"{\"networks\":[\"wifi\"]}", "bounds.networks[0]: no such value"},
		{"{\"allow\":\"a.b\"}", "bounds.allow: expected an array"},
		{"{\"allow\":[\"a.b\",\"::1\"]}", "bounds.allow[1]: ::1 is no rule for domains"},
		{"{\"block\":[7]}", "bounds.block[0]: expected a string"},
		{"{\"limits\":{\"memory\":\"much\"}}", "bounds.limits.memory: the limit memory"},
		{"{\"limits\":{\"ram\":1}}", "bounds.limits.ram: no limit is called so"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct cay_error err = {0};
		struct bounds b;

		if (bounds_parse(&b, bad[i][0], strlen(bad[i][0]), &err) == 0)
			fail_msg("%s: taken", bad[i][0]);
		if (err.code != CAY_E_INVALID ||
		    strncmp(err.text, bad[i][1], strlen(bad[i][1])) != 0)
			fail_msg("%s: %s", bad[i][0], err.text);
		bounds_done(&b);
	}
}

/* What a spec asks for, and whether the bounds let it. */
static const struct {
	const char *bounds;
	struct spec spec;
	const char *denied; /* is in the error; NULL: allowed */
} rows[] = {
	{"{}", {.engine = ENGINE_DIRECT, .limits = {.memory_bytes = 1ull << 40}}, NULL},
	{"{\"engines\":[\"native\"]}", {.engine = ENGINE_AUTO}, NULL},
	{"{\"engines\":[\"native\"]}", {.engine = ENGINE_NATIVE}, NULL},
	{"{\"engines\":[\"native\"]}", {.engine = ENGINE_DIRECT}, "the engine direct"},
	{"{\"engines\":[\"direct\"]}", {.engine = ENGINE_DIRECT}, NULL},
	{"{\"engines\":[\"direct\"]}", {.engine = ENGINE_AUTO}, "the engine native"},
	{"{\"engines\":[]}", {.engine = ENGINE_AUTO}, "the engine native"},
	{"{\"networks\":[]}", {0}, NULL},
	{"{\"mounts\":\"none\"}", {0}, NULL},
	{"{\"mounts\":\"none\"}", {.n_mounts = 1}, "host directories"},
	{"{\"mounts\":\"none\"}", {.workspace = {.source = "/a"}}, "host directories"},
	{"{\"mounts\":\"ro\"}", {.n_mounts = 1, .workspace = {.source = "/a"}}, NULL},
	{"{\"mounts\":\"ro\"}",
	 {.n_mounts = 2, .mounts = {[1] = {.access = ACCESS_WRITE}}},
	 "writable host directories"},
	{"{\"mounts\":\"ro\"}",
	 {.workspace = {.source = "/a", .access = ACCESS_WRITE}},
	 "writable host directories"},
	{"{\"mounts\":\"rw\"}", {.n_mounts = 1, .mounts = {{.access = ACCESS_WRITE}}}, NULL},
	{"{\"limits\":{\"memory\":\"1g\"}}", {.limits = {.memory_bytes = 1 << 30}}, NULL},
	{"{\"limits\":{\"memory\":\"1g\"}}",
	 {.limits = {.memory_bytes = (1 << 30) + 1}},
	 "the limit memory"},
	{"{\"limits\":{\"timeout\":5}}", {.limits = {.timeout_ms = 6000}}, "maximum of 5 s"},
	{"{\"limits\":{\"timeout\":5}}", {.limits = {.cpu_time_ms = 6000}}, NULL},
};

static void bounds_hold(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		_cleanup_(bounds_done) struct bounds b = parse(rows[i].bounds);
		struct cay_error err = {0};
		int r = bounds_check(&b, &rows[i].spec, &err);

		if ((r == 0) != !rows[i].denied)
			fail_msg("row %zu, %s: %d %s", i, rows[i].bounds, r, err.text);
		if (r == 0)
			continue;
		assert_int_equal(err.code, CAY_E_POLICY);
		if (!strstr(err.text, rows[i].denied) || !err.hint[0])
			fail_msg("row %zu, %s: %s (%s)", i, rows[i].bounds, err.text, err.hint);
	}
}

/* Also what nobody asked for: a default above a key's maximum is lowered in the plan. */
static void maxima_are_the_lower_ones(void **state)
{
	_cleanup_(bounds_done) struct bounds b =
		parse("{\"limits\":{\"memory\":\"64m\",\"pids\":1000,\"cpu_time\":7}}");
	_cleanup_(settings_done) struct settings settings;
	struct spec *spec = calloc(1, sizeof(*spec));
	struct plan *plan = NULL;
	struct cay_error err = {0};

	(void)state;
	assert_non_null(spec);
	settings_init(&settings);
	settings.maximum.memory_bytes = 1ull << 30;
	settings.maximum.pids = 100;
	bounds_lower(&b, &settings.maximum);
	assert_int_equal(settings.maximum.memory_bytes, 64 << 20);
	assert_int_equal(settings.maximum.pids, 100);
	assert_int_equal(settings.maximum.cpu_time_ms, 7000);
	assert_int_equal(settings.maximum.disk_bytes, 0);
	spec->kind = SPEC_ARGV;
	assert_int_equal(strv_add(&spec->args, "true"), 0);
	assert_int_equal(plan_make(spec, &settings, NULL, NULL, NULL, &plan, &err), 0);
	assert_int_equal(plan->limits.memory_bytes, 64 << 20);
	assert_int_equal(plan->limits.cpu_time_ms, 7000);
	free(plan);
	spec_done(spec);
	free(spec);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bounds_are_read),
		cmocka_unit_test(wrong_bounds_are_refused),
		cmocka_unit_test(bounds_hold),
		cmocka_unit_test(maxima_are_the_lower_ones),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
