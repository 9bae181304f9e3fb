#include "base/ini.h"

#include "base/attr.h"
#include "base/buf.h"

#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

/* Writes down what it sees, as "2[section]key=value;", and refuses the key "refuse". */
static int note(void *ctx, const struct cay_ini_item *item)
{
	struct buf *seen = ctx;

	if (!item->key) {
		assert_null(item->value);
		assert_int_equal(buf_printf(seen, "%d[%s];", item->line, item->section), 0);
		return strcmp(item->section, "refuse") == 0;
	}
	assert_int_equal(
		buf_printf(seen, "%d[%s]%s=%s;", item->line, item->section, item->key, item->value),
		0);
	return strcmp(item->key, "refuse") == 0;
}

static void check(const char *text, int line, const char *expected)
{
	_cleanup_(buf_done) struct buf seen = BUF(10000);
	const char *why = "not set";

	assert_int_equal(ini_each(text, note, &seen, &why), line);
	assert_string_equal(buf_str(&seen), expected);
	assert_null(why);
}

/* The line is no INI, in these words, and what stood before it was seen. */
static void check_wrong(const char *text, int line, const char *words, const char *expected)
{
	_cleanup_(buf_done) struct buf seen = BUF(10000);
	const char *why = NULL;

	assert_int_equal(ini_each(text, note, &seen, &why), line);
	assert_non_null(why);
	if (!strstr(why, words))
		fail_msg("'%s' does not say '%s'", why, words);
	assert_string_equal(buf_str(&seen), expected);
}

static void reads_keys(void **state)
{
	(void)state;
	check("", 0, "");
	check("[a]\nx = 1\ny=two words\n\n[b c]\nz : 3", 0,
	      "1[a];2[a]x=1;3[a]y=two words;5[b c];6[b c]z=3;");
	check("x = 1\n", 0, "1[]x=1;");
	check("[a]\r\nx = 1\r\n", 0, "1[a];2[a]x=1;");
	check("[a]\nx =\n", 0, "1[a];2[a]x=;");
	check("[a]\nx = b=c:d\n", 0, "1[a];2[a]x=b=c:d;");
	check("\xef\xbb\xbf[a]\nx = 1\n", 0, "1[a];2[a]x=1;");
	check_wrong("\xef\xbb\xbf\xef\xbb\xbf[a] b\n", 1, "byte order mark", "");
	check_wrong(" \xef\xbb\xbf[a\nx = 1\n", 1, "byte order mark", "");
	check("[a]\nx = 1\nx = 2\n", 0, "1[a];2[a]x=1;3[a]x=2;");
	check("[a]\n[b]\n", 0, "1[a];2[b];");
}

static void reads_comments(void **state)
{
	char text[1000];

	(void)state;
	check("# one\n; two\n  # three\n[a]\nx = 1\n#y = 2\n", 0, "4[a];5[a]x=1;");
	/* Of any length, and with what would be a key in its middle. */
	memset(text, 'c', sizeof(text));
	for (size_t i = 0; i < 990; i += 9)
		text[i] = '=';
	text[0] = '#';
	text[990] = '\n';
	memcpy(text + 991, "x=1\n", 5);
	check(text, 0, "2[]x=1;");
}

/* inih takes an indented line for one more value of the key above. */
static void indented_lines_are_lines(void **state)
{
	(void)state;
	check("[a]\nx = 1\n  y = 2\n\tz = 3\n", 0, "1[a];2[a]x=1;3[a]y=2;4[a]z=3;");
	check("  [a]\n", 0, "1[a];");
	check_wrong("[a]\nx = 1\n  /srv/more\n", 3, "key = value", "1[a];2[a]x=1;");
}

/* inih cuts values there; so a path would lose its end, or a rule its meaning. */
static void comments_behind_values_are_refused(void **state)
{
	(void)state;
	check_wrong("x = /srv ; data\n", 1, "comment", "");
	check_wrong("x = /srv\t# data\n", 1, "comment", "");
	check_wrong("[a] # data\n", 1, "comment", "");
	check_wrong("x = ;\n", 1, "comment", "");
	check("x = a;b#c\n", 0, "1[]x=a;b#c;");
}

/* inih would go on in the middle of the line, as if it were the next. */
static void long_lines_are_refused(void **state)
{
	char text[INI_LINE_MAX + 100], expected[INI_LINE_MAX + 100];

	(void)state;
	memset(text, 'v', sizeof(text));
	memcpy(text, "k=", 2);
	memcpy(text + INI_LINE_MAX, "\nx=1\n", 6);
	memset(expected, 'v', sizeof(expected));
	memcpy(expected, "1[]k=", 5);
	memcpy(expected + 5 + INI_LINE_MAX - 2, ";2[]x=1;", 9);
	check(text, 0, expected);
	memset(text, 'v', sizeof(text));
	memcpy(text, "k=", 2);
	memcpy(text + INI_LINE_MAX + 1, "\nx=1\n", 6);
	check_wrong(text, 1, "too long", "");
	memset(text, 'v', sizeof(text));
	memcpy(text, "x=1\nk=", 6);
	memcpy(text + INI_LINE_MAX + 50, "=", 2);
	check_wrong(text, 2, "too long", "1[]x=1;");
}

/* inih forgets what is behind the "]", and cuts long names. */
static void sections_are_checked(void **state)
{
	char text[INI_SECTION_MAX + 10], expected[INI_SECTION_MAX + 10];

	(void)state;
	check_wrong("[a\nx = 1\n", 1, "']'", "");
	check_wrong("[a] x = 1\n", 1, "']'", "");
	check_wrong("[a]]\n", 1, "']'", "");
	memset(text, 's', sizeof(text));
	text[0] = '[';
	memcpy(text + 1 + INI_SECTION_MAX + 1, "]", 2);
	check_wrong(text, 1, "too long", "");
	memcpy(text + 1 + INI_SECTION_MAX, "]\n", 3);
	(void)snprintf(expected, sizeof(expected), "1%.*s;", INI_SECTION_MAX + 2, text);
	check(text, 0, expected);
}

static void other_lines_are_refused(void **state)
{
	(void)state;
	check_wrong("[a]\nx\n", 2, "key = value", "1[a];");
	check_wrong("x = a\x1b[2Jb\n", 1, "control", "");
	check_wrong("x = a\rb\n", 1, "control", "");
	check_wrong("x = a\x7f\n", 1, "control", "");
	check("x = a\tb\n", 0, "1[]x=a\tb;");
}

static void nothing_is_seen_after_a_wrong_line(void **state)
{
	(void)state;
	check("[a]\nrefuse = 1\nx = 1\nrefuse = 2\n", 2, "1[a];2[a]refuse=1;");
	check("[refuse]\nx = 1\n", 1, "1[refuse];");
	check_wrong("[a]\nwrong\nx = 1\nrefuse = 2\n", 2, "key = value", "1[a];");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_keys),
		cmocka_unit_test(reads_comments),
		cmocka_unit_test(indented_lines_are_lines),
		cmocka_unit_test(comments_behind_values_are_refused),
		cmocka_unit_test(long_lines_are_refused),
		cmocka_unit_test(sections_are_checked),
		cmocka_unit_test(other_lines_are_refused),
		cmocka_unit_test(nothing_is_seen_after_a_wrong_line),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
