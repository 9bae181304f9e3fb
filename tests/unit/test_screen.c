#include "cli/screen.h"

#include "base/attr.h"

#include <errno.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

struct said {
	const char *text, *keys;
	struct answers is;
};

#define SIXEL .attributes = true, .sixel = true

static void answers(void **state)
{
	static const struct said rows[] = {
		{"", "", {.sixel = false}},
		{"\033[?62;4c", "", {SIXEL}},
		{"\033[?4c", "", {.attributes = true}}, /* a kind of terminal, no feature */
		{"\033[?62;22c", "", {.attributes = true}},
		{"\033[?64;1;2;4;6;9;15c", "", {SIXEL}},
		{"\033[?65;44;14c", "", {.attributes = true}},
		{"\033[?1;0;256S\033[?2;0;800;600S\033[?64;4c",
		 "",
		 {SIXEL, .width = 800, .height = 600, .colours = 256}},
		{"\033[?1;3;0S\033[?2;1;0S\033[?64;4c", "", {SIXEL}},
		{"ab\033[?62;4cc\r", "abc\r", {SIXEL}},
		{"\033[A\033OP\033", "\033[A\033OP\033", {.sixel = false}},
		{"\033\033[?62;4c", "\033", {SIXEL}},
		{"\033[?6\033[?62;4c", "\033[?6", {SIXEL}},
		{"\033[c\033[>0;276;0c", "\033[c\033[>0;276;0c", {.sixel = false}},
		{"\033[?1;2", "\033[?1;2", {.sixel = false}},
		{"\033[?99999999999999999999;4c",
		 "\033[?99999999999999999999;4c",
		 {.sixel = false}},
		{"\033[?1;;;;;;;;;;;;;;;;;;4c", "\033[?1;;;;;;;;;;;;;;;;;;4c", {.sixel = false}},
		{"\033[?6x;4c", "\033[?6x;4c", {.sixel = false}},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		for (size_t piece = 1; piece < 40; piece += 13) {
			_cleanup_(buf_done) struct buf keys = BUF(1000);
			size_t len = strlen(rows[i].text);
			struct answers a = {.len = 0};

			for (size_t at = 0; at < len; at += piece)
				assert_int_equal(answers_take(&a, rows[i].text + at,
							      size_min(piece, len - at), &keys),
						 0);
			assert_int_equal(answers_end(&a, &keys), 0);
			assert_string_equal(buf_str(&keys), rows[i].keys);
			assert_int_equal(a.attributes, rows[i].is.attributes);
			assert_int_equal(a.sixel, rows[i].is.sixel);
			assert_int_equal(a.width, rows[i].is.width);
			assert_int_equal(a.height, rows[i].is.height);
			assert_int_equal(a.colours, rows[i].is.colours);
		}
}

static void what_never_ends(void **state)
{
	_cleanup_(buf_done) struct buf keys = BUF(1000), few = BUF(2);
	struct answers a = {.len = 0};

	(void)state;
	assert_int_equal(answers_take(&a, "\033[", 2, &keys), 0);
	for (int i = 0; i < 500; i++)
		assert_int_equal(answers_take(&a, "1", 1, &keys), 0);
	assert_int_equal(answers_end(&a, &keys), 0);
	assert_int_equal(keys.len, 502);
	assert_int_equal(answers_take(&a, "abc", 3, &few), -EFBIG);
}

/* Here stdout is none. */
static void no_terminal(void **state)
{
	_cleanup_(buf_done) struct buf keys = BUF(1000);
	struct screen s;

	(void)state;
	screen_init(&s, &keys);
	assert_false(screen_ask(&s));
	assert_true(s.asked);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(answers),
		cmocka_unit_test(what_never_ends),
		cmocka_unit_test(no_terminal),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
