#include "spec/java.h"

#include "base/attr.h"

#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static const struct {
	const char *source, *entry;
} rows[] = {
	{"class A {}", "A"},
	{"public class Main { static class Inner {} }", "Main"},
	{"class Helper {} public class Main {} class Other {}", "Main"},
	{"class First {} class Second {}", "First"},
	{"package a.b.c;\nimport java.util.*;\npublic final class X<T> extends Y {}", "a.b.c.X"},
	{"// class No\n/* public class No2 */ class Yes {}", "Yes"},
	{"@SuppressWarnings(\"class No\") class Yes {}", "Yes"},
	{"@A(x = No.class) public class Yes {}", "Yes"},
	{"class A { String s = \"}\"; char c = '}'; char d = '\\''; class B {} } public class C {}",
	 "C"},
	{"class A { String s = \"\"\"\n } \\\"\"\" class Z { \"\"\"; } public class B {}", "B"},
	{"public interface I {} ", "I"},
	{"record P(int x, int y) {}", "P"},
	{"public enum E { A, B }", "E"},
	{"import java.lang.Record; class A {}", "A"},
	{"public class \xc3\x84rger {}", "\xc3\x84rger"},
	{"class", NULL},
	{"int x = 5;", NULL},
	{"", NULL},
	{"/* never closed class A {}", NULL},
	{"\"never closed class A {}", NULL},
	{"class A {", "A"},
	{"}}} class A {}", "A"},
};

static void finds_the_entry(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		/* Of its own size, so that a look beyond the end is seen. */
		size_t len = strlen(rows[i].source);
		char *source = malloc(len ? len : 1), *entry;

		assert_non_null(source);
		memcpy(source, rows[i].source, len);
		entry = java_entry(source, len);
		if (!rows[i].entry && entry)
			fail_msg("%s: %s", rows[i].source, entry);
		if (rows[i].entry && !entry)
			fail_msg("%s: nothing", rows[i].source);
		if (rows[i].entry)
			assert_string_equal(entry, rows[i].entry);
		free(entry);
		free(source);
	}
}

/* Any beginning of a source, and any byte in it, is taken without harm. */
static void takes_anything(void **state)
{
	const char *source = rows[9].source;
	size_t len = strlen(source);

	(void)state;
	for (size_t n = 0; n <= len; n++) {
		char *part = malloc(n ? n : 1);

		assert_non_null(part);
		memcpy(part, source, n);
		free(java_entry(part, n));
		for (int c = 0; n > 0 && c < 256; c++) {
			part[n - 1] = (char)c;
			free(java_entry(part, n));
		}
		free(part);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(finds_the_entry),
		cmocka_unit_test(takes_anything),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
