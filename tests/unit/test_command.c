#include "policy/command.h"

#include "base/attr.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#define MEMORY (512ull << 20)

/* The words, joined by a bar, as they come out. */
static void check(const struct strv *v, const char *expected)
{
	char text[4096] = "";
	size_t at = 0;

	for (size_t i = 0; i < v->len; i++)
		at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%s", i ? "|" : "",
				       v->items[i]);
	assert_string_equal(text, expected);
}

struct asked {
	const char *language, *version, *code, *script, *tool, *entry;
};

static void expect(struct asked a, const char *compile, const char *argv)
{
	struct spec spec = {.kind = SPEC_CODE,
			    .code = (char *)(uintptr_t)a.code,
			    .entry = (char *)(uintptr_t)a.entry};
	struct runtime rt = {.language = language_find(a.language)};
	struct command_words c;

	assert_non_null(rt.language);
	(void)snprintf(rt.program, sizeof(rt.program), "/p");
	(void)snprintf(rt.version, sizeof(rt.version), "%s", a.version ? a.version : "");
	(void)snprintf(rt.tool, sizeof(rt.tool), "%s", a.tool ? a.tool : "");
	assert_int_equal(strv_add(&spec.args, "-x"), 0);
	assert_int_equal(command_make(&spec, &rt, a.script, MEMORY, &c), 0);
	check(&c.compile, compile);
	check(&c.argv, argv);
	command_done(&c);
	strv_done(&spec.args);
}

static void code_as_argument(void **state)
{
	(void)state;
	expect((struct asked){"python", .code = "print({script})"}, "", "/p|-c|print({script})|-x");
	expect((struct asked){"sh", .code = "-e"}, "", "/p|-c|--|-e|sh|-x");
	expect((struct asked){"ruby", .code = "p 1"}, "", "/p|-e|p 1|--|-x");
	expect((struct asked){"javascript", "20.20.2", .code = "1"}, "",
	       "/p|--experimental-detect-module|-e|1|--|main.js|-x");
	expect((struct asked){"javascript", "22.8.0", .code = "-1"}, "",
	       "/p|--eval=-1|--|main.js|-x");
}

static void options_of_versions(void **state)
{
	static const char *const with[] = {"20.10.0", "20.20.2", "21.1.0", "22.6.9"};
	static const char *const without[] = {"18.20.1", "20.9.9", "22.7.0", "24.1.0", ""};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(with); i++)
		expect((struct asked){"node", with[i], .script = "/s"}, "",
		       "/p|--experimental-detect-module|/s|-x");
	for (size_t i = 0; i < ARRAY_LEN(without); i++)
		expect((struct asked){"node", without[i], .script = "/s"}, "", "/p|/s|-x");
}

static void compiled_languages(void **state)
{
	(void)state;
	expect((struct asked){"c", .script = "/workspace/a.c"},
	       "/p|-O1|-o|" ISLAND_BUILD "/main|/workspace/a.c|-pthread|-lm",
	       ISLAND_BUILD "/main|-x");
	expect((struct asked){"java", .script = "/s", .tool = "/jc", .entry = "a.Main"},
	       "/jc|-J-XX:MaxRAM=536870912|-J-XX:TieredStopAtLevel=1|-J-XX:+UseSerialGC|-d|" ISLAND_BUILD
	       "|/s",
	       "/p|-XX:MaxRAM=536870912|-cp|" ISLAND_BUILD "|a.Main|-x");
}

static void without_the_tool(void **state)
{
	(void)state;
	expect((struct asked){"typescript", "24.1.0", .script = "/s.ts"}, "",
	       "/p|--experimental-transform-types|--disable-warning=ExperimentalWarning|/s.ts|-x");
}

static void environment(void **state)
{
	struct spec spec = {.kind = SPEC_CODE};
	struct runtime rt = {.language = language_find("go")};
	struct command_words c;

	(void)state;
	assert_int_equal(command_make(&spec, &rt, "/s", MEMORY, &c), 0);
	assert_string_equal(strv_get_env(&c.env, "GOCACHE"), ISLAND_BUILD "/cache");
	assert_string_equal(strv_get_env(&c.env, "GOTOOLCHAIN"), "local");
	command_done(&c);
	rt = (struct runtime){.language = language_find("php"), .version = "8.2.35"};
	assert_int_equal(command_make(&spec, &rt, "/s", MEMORY, &c), 0);
	assert_non_null(strstr(strv_get_env(&c.env, "PHP_INI_SCAN_DIR"),
			       ":/usr/share/php8.2-mbstring/mbstring:"));
	command_done(&c);
}

static void bare_words(void **state)
{
	struct spec spec = {.kind = SPEC_ARGV};
	struct command_words c;

	(void)state;
	assert_int_equal(strv_add(&spec.args, "{script}"), 0);
	assert_int_equal(strv_add(&spec.args, ""), 0);
	assert_int_equal(command_make(&spec, NULL, NULL, MEMORY, &c), 0);
	check(&c.argv, "{script}|");
	assert_int_equal(c.compile.len, 0);
	command_done(&c);
	strv_done(&spec.args);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(code_as_argument),   cmocka_unit_test(options_of_versions),
		cmocka_unit_test(compiled_languages), cmocka_unit_test(without_the_tool),
		cmocka_unit_test(environment),        cmocka_unit_test(bare_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
