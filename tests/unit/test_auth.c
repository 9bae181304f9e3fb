#include "image/auth.h"

#include "base/attr.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void challenges(void **state)
{
	static const struct {
		const char *header;
		enum auth_kind kind;
		const char *realm, *service, *scope;
	} rows[] = {
		{"", AUTH_NONE, "", "", ""},
		{"Basic", AUTH_BASIC, "", "", ""},
		{"Basic realm=\"Registry\"", AUTH_BASIC, "Registry", "", ""},
		{"basic realm=x", AUTH_BASIC, "x", "", ""},
		{"Bearer realm=\"https://a/token\",service=\"s\",scope=\"repository:a/b:pull\"",
		 AUTH_BEARER, "https://a/token", "s", "repository:a/b:pull"},
		{"bearer  Realm = \"https://a/t\" , error=\"insufficient_scope\"", AUTH_BEARER,
		 "https://a/t", "", ""},
		{"Basic realm=\"x\", Bearer realm=\"https://a\"", AUTH_BEARER, "https://a", "", ""},
		{"Bearer realm=\"https://a\", Basic realm=\"x\"", AUTH_BEARER, "https://a", "", ""},
		{"Negotiate, Basic realm=x", AUTH_BASIC, "x", "", ""},
		{"Negotiate YWJj==, Basic realm=x", AUTH_BASIC, "x", "", ""},
		{"Digest realm=\"a, Bearer realm=b\"", AUTH_NONE, "", "", ""},
		{"Bearer service=\"s\"", AUTH_NONE, "", "", ""},
		{"Bearer realm=\"a\\\"b\"", AUTH_BEARER, "a\"b", "", ""},
		{"Bearer realm=\"a\", realm=\"b\"", AUTH_BEARER, "a", "", ""},
	};
	struct challenge c;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		if (challenge_parse(rows[i].header, &c) < 0)
			fail_msg("%s is refused", rows[i].header);
		assert_int_equal(c.kind, rows[i].kind);
		if (c.kind == AUTH_NONE)
			continue;
		assert_string_equal(c.realm, rows[i].realm);
		assert_string_equal(c.service, rows[i].service);
		assert_string_equal(c.scope, rows[i].scope);
	}
}

static void no_challenges(void **state)
{
	static const char *const rows[] = {
		"=",
		"\"Basic\"",
		"Bearer realm=\"",
		"Bearer realm=\"a\\",
		"Bearer realm=\"a\"x",
		"Bearer realm=\"a\nb\"",
		"Basic;",
		"Bearer realm=\"a\" service=\"b\"",
	};
	char long_one[AUTH_TEXT_SIZE + 50];
	struct challenge c;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (challenge_parse(rows[i], &c) != -EINVAL)
			fail_msg("%s is taken", rows[i]);
	(void)snprintf(long_one, sizeof(long_one), "Bearer realm=\"%0*d\"", AUTH_TEXT_SIZE, 0);
	assert_int_equal(challenge_parse(long_one, &c), -EINVAL);
	(void)snprintf(long_one, sizeof(long_one), "Bearer realm=\"%0*d\"", AUTH_TEXT_SIZE - 1, 0);
	assert_int_equal(challenge_parse(long_one, &c), 0);
}

static void tokens(void **state)
{
	static const struct {
		const char *text, *token; /* NULL: none */
	} rows[] = {
		{"{\"token\":\"abc.DEF-_~+/=\"}", "abc.DEF-_~+/="},
		{"{\"access_token\":\"b\",\"expires_in\":300}", "b"},
		{"{\"token\":\"a\",\"access_token\":\"b\"}", "a"},
		{"{}", NULL},
		{"{\"token\":\"\"}", NULL},
		{"{\"token\":7}", NULL},
		{"{\"token\":\"a b\"}", NULL},
		{"{\"token\":\"a\\r\\nX: y\"}", NULL},
		{"{\"token\":\"a\\u0000b\"}", NULL},
		{"token", NULL},
	};
	static char token[AUTH_TOKEN_SIZE];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		assert_int_equal(token_parse(rows[i].text, strlen(rows[i].text), token),
				 rows[i].token ? 0 : -EINVAL);
		if (rows[i].token)
			assert_string_equal(token, rows[i].token);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(challenges),
		cmocka_unit_test(no_challenges),
		cmocka_unit_test(tokens),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
