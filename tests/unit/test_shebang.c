#include "spec/shebang.h"

#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static void check(const char *text, enum shebang expected, const char *name)
{
	char got[SHEBANG_NAME_SIZE];
	enum shebang kind = shebang_read(text, strlen(text), got);

	if (kind != expected || strcmp(got, name) != 0)
		fail_msg("'%s' gave %d '%s'", text, (int)kind, got);
}

static void interpreters(void **state)
{
	(void)state;
	check("#!/usr/bin/python3\nprint(1)", SHEBANG_KNOWN, "python");
	check("#!/usr/bin/python3", SHEBANG_KNOWN, "python");
	check("#! /bin/sh -e\n", SHEBANG_KNOWN, "sh");
	check("#!python\r\n", SHEBANG_KNOWN, "python");
	check("#!\t/bin/sh\t-x\n", SHEBANG_KNOWN, "sh");
}

static void versions(void **state)
{
	(void)state;
	check("#!/usr/bin/python3.11\n", SHEBANG_KNOWN, "python@3.11");
	check("#!/opt/p/bin/python3.12.1 -u\n", SHEBANG_KNOWN, "python@3.12.1");
	check("#!/usr/bin/env python3.9\n", SHEBANG_KNOWN, "python@3.9");
}

static void env(void **state)
{
	(void)state;
	check("#!/usr/bin/env python3\n", SHEBANG_KNOWN, "python");
	check("#!/usr/bin/env -S python3 -u\n", SHEBANG_KNOWN, "python");
	check("#!/usr/bin/env -Spython3 -u\n", SHEBANG_KNOWN, "python");
	check("#!/usr/bin/env -vS python3\n", SHEBANG_KNOWN, "python");
	check("#!/usr/bin/env --split-string=python3 -u\n", SHEBANG_KNOWN, "python");
	check("#!/usr/bin/env -i A=1 B=x=y /usr/bin/python3\n", SHEBANG_KNOWN, "python");
	check("#!/usr/bin/env -S -u sh -C /tmp python3\n", SHEBANG_KNOWN, "python");
	check("#!/usr/bin/env\n", SHEBANG_NONE, "");
	check("#!/usr/bin/env -S\n", SHEBANG_NONE, "");
}

static void cay_itself(void **state)
{
	(void)state;
	check("#!/usr/bin/env -S cay run -l python\n", SHEBANG_KNOWN, "python");
	check("#!/usr/bin/env -S cay run -m 1g -lsh --json\n", SHEBANG_KNOWN, "sh");
	check("#!/usr/local/bin/cay run --language python@3.11\n", SHEBANG_KNOWN, "python@3.11");
	check("#!/usr/bin/env -S cay run --language=sh\n", SHEBANG_KNOWN, "sh");
	/* Whether there is such a language is said by whoever sets it. */
	check("#!/usr/bin/env -S cay run -l pyhton\n", SHEBANG_KNOWN, "pyhton");
	check("#!/usr/bin/env -S cay run\n", SHEBANG_NONE, "");
	check("#!/usr/bin/env -S cay run -l\n", SHEBANG_NONE, "");
}

static void others(void **state)
{
	(void)state;
	check("#!/usr/bin/awk -f\n", SHEBANG_UNKNOWN, "awk");
	check("#!/usr/bin/env cobol85\n", SHEBANG_UNKNOWN, "cobol85");
	check("#!/usr/bin/3.11\n", SHEBANG_UNKNOWN, "3.11");
	check("#!/usr/bin/\n", SHEBANG_UNKNOWN, "");
}

static void none(void **state)
{
	(void)state;
	check("", SHEBANG_NONE, "");
	check("#", SHEBANG_NONE, "");
	check("#!", SHEBANG_NONE, "");
	check("#!  \n/usr/bin/python3", SHEBANG_NONE, "");
	check("print('#!/usr/bin/python3')\n", SHEBANG_NONE, "");
	check("\n#!/usr/bin/python3\n", SHEBANG_NONE, "");
}

static void long_lines_are_survived(void **state)
{
	char text[4096], got[SHEBANG_NAME_SIZE];

	(void)state;
	memset(text, 'x', sizeof(text));
	memcpy(text, "#!", 2);
	assert_int_equal(shebang_read(text, sizeof(text), got), SHEBANG_UNKNOWN);
	assert_true(strlen(got) < sizeof(got));
	memset(text + 2, ' ', sizeof(text) - 2);
	assert_int_equal(shebang_read(text, sizeof(text), got), SHEBANG_NONE);
	memset(text, 0, sizeof(text));
	memcpy(text, "#!", 2);
	assert_int_equal(shebang_read(text, sizeof(text), got), SHEBANG_UNKNOWN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(interpreters),
		cmocka_unit_test(versions),
		cmocka_unit_test(env),
		cmocka_unit_test(cay_itself),
		cmocka_unit_test(others),
		cmocka_unit_test(none),
		cmocka_unit_test(long_lines_are_survived),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
