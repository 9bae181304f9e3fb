#include "plan_support.h"

#include "policy/warm.h"
#include "settings/settings.h"

static void use_python(const char *version, const char *code)
{
	use_code("python", code);
	(void)snprintf(runtime->version, sizeof(runtime->version), "%s", version);
}

/* The set that code gets, "" where it starts cold. */
static const char *set_of(const char *code)
{
	static char set[WARM_NAME_SIZE];
	struct plan *p;

	use_python("3.11.2", code);
	p = make(runtime, NULL);
	(void)snprintf(set, sizeof(set), "%s", plan_warm(p) ? plan_warm(p) : "");
	free(p);
	return set;
}

static void the_smallest_that_has_it(void **state _unused_)
{
	static const char *const cases[][2] = {
		{"print(42)", "default"},
		{"import json", "default"},
		{"import json, hashlib", "library"},
		{"import hashlib", "library"},
		{"import urllib.request as r", "library"},
		{"x = 1; import  uuid ; print(x)", "library"},
		{"if 1:\n\tfrom logging import info", "library"},
		{"import asyncio", "asyncio"},
		{"import asyncio\nimport numpy as np", "science"},
		{"from matplotlib import pyplot", "science"},
		{"import matplotlib.pyplot", "science"},
		{"import pandasql", "default"},
		{"important = numpy = 1", "default"},
		{"import", "default"},
		{"import ,", "default"},
		{"", "default"},
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_string_equal(set_of(cases[i][0]), cases[i][1]);
}

static void the_operators_own(void **state _unused_)
{
	struct cay_error err;

	assert_int_equal(settings_parse(&settings, "F",
					"[warm]\nset = data=polars,hashlib\nset = default=json\n",
					&err),
			 0);
	assert_string_equal(set_of("import polars"), "data");
	assert_string_equal(set_of("import hashlib"), "library");
	assert_string_equal(set_of("import re"),
			    "library"); /* of ours; the default has it no more */
	assert_string_equal(set_of("import json"), "default");
	settings.warm_enabled = false;
	assert_string_equal(set_of("import json"), "");
}

/* What a started interpreter has decided already, or has no part in. */
static void others_are_cold(void **state _unused_)
{
	struct cay_error err;

	spec->cold = true;
	assert_string_equal(set_of("1"), "");
	spec->cold = false;
	assert_int_equal(spec_set_env(spec, "TERM", "xterm", &err), 0);
	assert_string_equal(set_of("1"), "default");
	assert_int_equal(spec_set_env(spec, "PYTHONUTF8", "1", &err), 0);
	assert_string_equal(set_of("1"), "");
}

static void versions(void **state _unused_)
{
	static const char *const cases[][2] = {
		{"3.9.18", ""}, {"3.10", "x"}, {"3.13.0", "x"}, {"3.14.0", ""}};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		_cleanup_(freep) struct plan *p = NULL;

		use_python(cases[i][0], "1");
		p = make(runtime, NULL);
		assert_int_equal(plan_warm(p) != NULL, cases[i][1][0] == 'x');
	}
}

/* One that can't be cloned: nothing is loaded for it, and images' are not trusted to wait. */
static void node_waits(void **state _unused_)
{
	static const char *const cases[][2] = {
		{"16.20.2", ""}, {"18.20.4", "node"}, {"24.1.0", "node"}, {"25.0.0", ""}};
	struct cay_error err;

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		_cleanup_(freep) struct plan *p = NULL;

		use_code("javascript", "import numpy from 'numpy'");
		(void)snprintf(runtime->version, sizeof(runtime->version), "%s", cases[i][0]);
		p = make(runtime, NULL);
		assert_string_equal(plan_warm(p) ? plan_warm(p) : "", cases[i][1]);
	}
	(void)snprintf(runtime->version, sizeof(runtime->version), "20.1.0");
	assert_int_equal(spec_set_env(spec, "NODE_OPTIONS", "--no-warnings", &err), 0);
	_cleanup_(freep) struct plan *p = make(runtime, NULL);
	assert_null(plan_warm(p));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(the_smallest_that_has_it, begin, end),
		cmocka_unit_test_setup_teardown(the_operators_own, begin, end),
		cmocka_unit_test_setup_teardown(others_are_cold, begin, end),
		cmocka_unit_test_setup_teardown(node_waits, begin, end),
		cmocka_unit_test_setup_teardown(versions, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
