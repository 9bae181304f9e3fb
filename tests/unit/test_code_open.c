#include "cli/code_open.h"

#include "base/attr.h"

#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

struct typed {
	const char *code;
	bool open;
};

static void check(const char *language, const struct typed *rows, size_t n)
{
	const struct code_manner *m = code_manner_find(language);

	assert_non_null(m);
	for (size_t i = 0; i < n; i++)
		if (code_open(m, rows[i].code, strlen(rows[i].code)) != rows[i].open)
			fail_msg("%s: %s is said to be %s", language, rows[i].code,
				 rows[i].open ? "whole" : "open");
}

static void python(void **state)
{
	static const struct typed rows[] = {
		{"x = 1\n", false},
		{"print('a:')\n", false},
		{"if x:\n", true},
		{"if x:\n    y\n", true},
		{"if x:\n    y\n\n", false},
		{"if x:  # why\n", true},
		{"x = {1: 2}\n", false},
		{"x = [1,\n", true},
		{"x = [1,\n     2]\n", false},
		{"x = '''a\n", true},
		{"x = '''a\n\n", true},
		{"x = '''a\n\n'''\n", false},
		{"x = \"\"\"'''\n", true},
		{"x = '('\n", false},
		{"x = 'it\\'s ('\n", false},
		{"x = '(\n", false},
		{"x = 1 + \\\n", true},
		{"x = 1 + \\\n  2\n", false},
		{"# (\n", false},
		{"@decorated\n", true},
		{"x[1:\n", true},
		{"f(\n\n", false},
		{"", false},
	};

	(void)state;
	check("python", rows, ARRAY_LEN(rows));
}

static void node(void **state)
{
	static const struct typed rows[] = {
		{"1 + 1\n", false},
		{"function f() {\n", true},
		{"function f() {\n  return 1;\n}\n", false},
		{"`a\n", true},
		{"`a\n\n`\n", false},
		{"'('\n", false},
		{"x // (\n", false},
		{"/* (\n", true},
		{"/* (\n\n*/ 1\n", false},
		{"[1, {a: 2},\n", true},
		{"a ? b :\n", false},
	};

	(void)state;
	check("node", rows, ARRAY_LEN(rows));
}

static void bash(void **state)
{
	static const struct typed rows[] = {
		{"echo a\n", false},
		{"for i in 1 2; do\n", true},
		{"for i in 1 2; do echo $i; done\n", false},
		{"if true; then\n", true},
		{"if true; then\n  echo a\nfi\n", false},
		{"echo 'a\n", true},
		{"echo 'a\n\n", true},
		{"echo 'a\\'\n", false},
		{"echo \"a\\\"\n", true},
		{"echo a \\\n", true},
		{"echo a |\n", true},
		{"true &&\n", true},
		{"sleep 1 &\n", false},
		{"cat <<E\n", true},
		{"cat <<E\na\n\n", true},
		{"cat <<E\na\nE\n", false},
		{"cat <<-'E'\n\ta\n\tE\n", false},
		{"cat <<<a\n", false},
		{"echo $# # 'x\n", false},
		{"f() {\n", true},
		{"f() {\n  :\n}\n", false},
		{"case x in\n", true},
		{"case x in x) ;; esac\n", false},
	};

	(void)state;
	check("bash", rows, ARRAY_LEN(rows));
}

static void others(void **state)
{
	(void)state;
	assert_null(code_manner_find("cobol"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(python),
		cmocka_unit_test(node),
		cmocka_unit_test(bash),
		cmocka_unit_test(others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
