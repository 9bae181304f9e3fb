#include "policy/mode.h"

#include "base/attr.h"
#include "policy/bounds.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#define AUTO   ENGINE_AUTO
#define NATIVE ENGINE_NATIVE
#define DIRECT ENGINE_DIRECT
#define DENIED (-1)

static const struct row {
	const char *allowed, *asked;
	enum spec_engine engine;
	bool trusted, shell, network, bound; /* bound: the key has no direct */
	int is;
	const char *says; /* in the reason, or in the error */
} rows[] = {
	/* all: nothing leads out */
	{"all", "", AUTO, 0, 0, 0, 0, NATIVE, ""},
	{"all", "", AUTO, 1, 0, 0, 0, NATIVE, ""},
	{"all", "", NATIVE, 1, 0, 0, 0, NATIVE, ""},
	{"all", "all", AUTO, 1, 0, 0, 0, NATIVE, ""},
	{"all", "", DIRECT, 1, 0, 0, 0, DENIED, "the engine direct: the operator's mode is all"},
	{"all", "all", DIRECT, 1, 0, 0, 0, DENIED, "the operator's mode is all"},
	{"all", "off", AUTO, 1, 0, 0, 0, DENIED, "mode off: the operator's mode is all"},
	{"all", "off", NATIVE, 1, 0, 0, 0, DENIED, "mode off: the operator's mode is all"},
	{"all", "off", DIRECT, 1, 0, 0, 0, DENIED, "mode off: the operator's mode is all"},
	{"all", "selective", AUTO, 1, 0, 0, 0, DENIED, "mode selective: the operator's mode"},
	/* selective: what is not trusted, and a shell with a network */
	{"selective", "", AUTO, 0, 0, 0, 0, NATIVE, "not marked as trusted"},
	{"selective", "", AUTO, 0, 1, 1, 0, NATIVE, "a shell with a network"},
	{"selective", "", AUTO, 1, 1, 1, 0, NATIVE, "a shell with a network"},
	{"selective", "", AUTO, 1, 1, 0, 0, DIRECT, "marked as trusted"},
	{"selective", "", AUTO, 1, 0, 1, 0, DIRECT, "marked as trusted"},
	{"selective", "", AUTO, 1, 0, 0, 0, DIRECT, "marked as trusted"},
	{"selective", "selective", AUTO, 1, 0, 0, 0, DIRECT, "marked as trusted"},
	{"selective", "all", AUTO, 1, 0, 0, 0, NATIVE, ""},
	{"selective", "off", AUTO, 1, 0, 0, 0, DENIED, "the operator's mode is selective"},
	{"selective", "", NATIVE, 1, 0, 0, 0, NATIVE, ""},
	{"selective", "", DIRECT, 1, 0, 0, 0, DIRECT, "asked for by name"},
	{"selective", "", DIRECT, 0, 0, 0, 0, DENIED, "not marked as trusted"},
	{"selective", "", DIRECT, 1, 1, 1, 0, DENIED, "a shell with a network"},
	{"selective", "all", DIRECT, 1, 0, 0, 0, DENIED, "none of mode all"},
	/* off: as asked */
	{"off", "", AUTO, 0, 0, 0, 0, DIRECT, "mode off"},
	{"off", "", AUTO, 0, 1, 1, 0, DIRECT, "mode off"},
	{"off", "off", AUTO, 0, 0, 0, 0, DIRECT, "mode off"},
	{"off", "", NATIVE, 0, 0, 0, 0, NATIVE, ""},
	{"off", "", DIRECT, 0, 0, 0, 0, DIRECT, "asked for by name"},
	{"off", "all", AUTO, 1, 0, 0, 0, NATIVE, ""},
	{"off", "all", DIRECT, 1, 0, 0, 0, DENIED, "none of mode all"},
	{"off", "selective", AUTO, 0, 0, 0, 0, NATIVE, "not marked as trusted"},
	{"off", "selective", AUTO, 1, 0, 0, 0, DIRECT, "marked as trusted"},
	{"off", "selective", DIRECT, 0, 0, 0, 0, DENIED, "not marked as trusted"},
	/* A key without direct gets the sandbox. */
	{"off", "", AUTO, 0, 0, 0, 1, NATIVE, "the key"},
	{"selective", "", AUTO, 1, 0, 0, 1, NATIVE, "the key"},
	{"all", "", AUTO, 1, 0, 0, 1, NATIVE, ""},
	{"off", "", DIRECT, 0, 0, 0, 1, DENIED, "not for this key"},
};

static void the_table(void **state _unused_)
{
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct row *r = &rows[i];
		struct mode_question q = {
			.allowed = mode_find(r->allowed),
			.asked = mode_find(r->asked),
			.engine = r->engine,
			.trusted = r->trusted,
			.shell = r->shell,
			.network = r->network,
			.key_direct = !r->bound,
		};
		struct mode_answer a = {.engine = ENGINE_AUTO};
		struct cay_error err = {0};
		int is = mode_decide(&q, &a, &err) < 0 ? DENIED : (int)a.engine;

		if (is != r->is)
			fail_msg("row %zu: %d, not %d (%s)", i, is, r->is, err.text);
		if (!strstr(is == DENIED ? err.text : a.reason, r->says))
			fail_msg("row %zu: '%s' not in '%s'", i, r->says,
				 is == DENIED ? err.text : a.reason);
		if (is == DENIED) {
			assert_int_equal(err.code, CAY_E_POLICY);
			assert_true(err.hint[0]);
		} else if (!r->says[0]) {
			assert_string_equal(a.reason, "");
		}
	}
}

static struct request_body read_body(const char *text)
{
	struct request_body q;
	struct cay_error err;

	if (request_parse(&q, REQUEST_RUN, text, strlen(text), &err) < 0)
		fail_msg("%s: %s", text, err.text);
	return q;
}

static void requests_become_questions(void **state _unused_)
{
	static const struct mode_caller who = {0};
	struct bounds native = {.has_engines = true, .engines = 1u << ENGINE_NATIVE};
	struct settings s;
	struct request_body q = read_body("{\"command\":\"true\",\"trusted\":true,"
					  "\"mode\":\"selective\",\"engine\":\"direct\"}");
	struct mode_question a;

	settings_init(&s);
	a = mode_question(&s, &who, &q.spec, NULL);
	assert_int_equal(a.allowed, MODE_ALL);
	assert_int_equal(a.asked, MODE_SELECTIVE);
	assert_int_equal(a.engine, ENGINE_DIRECT);
	assert_true(a.trusted && a.shell && a.key_direct);
	assert_false(a.network);
	s.key = &native;
	assert_false(mode_question(&s, &who, &q.spec, NULL).key_direct);
	s.key = NULL;
	request_body_done(&q);
	q = read_body("{\"code\":\"1\"}");
	a = mode_question(&s, &who, &q.spec, NULL);
	assert_int_equal(a.asked, MODE_UNSAID);
	assert_false(a.trusted || a.shell);
	request_body_done(&q);
	/* A network that is asked for, and would be had. */
	q = read_body("{\"command\":\"true\",\"network\":{\"allow\":[\"a.b\"]}}");
	assert_true(mode_question(&s, &who, &q.spec, NULL).network);
	s.network_mode = NETWORK_NONE;
	assert_false(mode_question(&s, &who, &q.spec, NULL).network);
	s.network_mode = NETWORK_FULL;
	request_body_done(&q);
	q = read_body("{\"command\":\"true\",\"tier\":\"elevated\"}");
	assert_true(mode_question(&s, &who, &q.spec, NULL).network);
	request_body_done(&q);
	settings_done(&s);
}

static void what_only_a_sandbox_has_is_named(void **state _unused_)
{
	static const char *const bad[][2] = {
		{"\"network\":{\"mode\":\"none\"}", "network: "},
		{"\"user\":\"cay\"", "user: "},
		{"\"writable\":false", "writable: "},
		{"\"limits\":{\"disk\":\"1m\"}", "limits.disk: "},
		{"\"mounts\":[{\"source\":\"/srv\",\"target\":\"/srv\"}]", "mounts: "},
		{"\"workspace\":{\"source\":\"/srv\"}", "workspace: "},
		{"\"files\":[{\"path\":\"a\",\"text\":\"\"},{\"path\":\"/tmp/b\",\"text\":\"\"}]",
		 "files[1].path: "},
		{"\"files\":[{\"path\":\"/workspaces/b\",\"text\":\"\"}]", "files[0].path: "},
	};
	struct request_body q = read_body("{\"code\":\"1\",\"files\":[{\"path\":\"a/b\","
					  "\"text\":\"\"}],\"get\":[\"*\"],\"stdin\":\"x\","
					  "\"limits\":{\"memory\":\"64m\"}}");
	struct cay_error err = {0};
	char text[256];

	assert_int_equal(mode_check_direct(&q, &err), 0);
	request_body_done(&q);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		(void)snprintf(text, sizeof(text), "{\"code\":\"1\",%s}", bad[i][0]);
		q = read_body(text);
		assert_int_equal(mode_check_direct(&q, &err), -1);
		assert_int_equal(err.code, CAY_E_UNSUPPORTED);
		if (strncmp(err.text, bad[i][1], strlen(bad[i][1])) != 0)
			fail_msg("%s: %s", bad[i][0], err.text);
		request_body_done(&q);
	}
}

static void settings_agree(void **state _unused_)
{
	struct settings s;
	struct cay_error err;

	settings_init(&s);
	assert_int_equal(s.serve_mode, MODE_ALL);
	assert_false(s.serve_direct_over_tcp);
	assert_null(s.serve_direct_user);
	assert_int_equal(mode_check_settings(&s, &err), 0);
	s.allow_direct = false;
	assert_int_equal(mode_check_settings(&s, &err), 0);
	s.serve_mode = MODE_SELECTIVE;
	assert_int_equal(mode_check_settings(&s, &err), -1);
	settings_done(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_table),
		cmocka_unit_test(requests_become_questions),
		cmocka_unit_test(what_only_a_sandbox_has_is_named),
		cmocka_unit_test(settings_agree),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
