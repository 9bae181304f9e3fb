#include "cli/sixel.h"

#include "base/attr.h"
#include "sixel_support.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static void fill(struct pixels *p, unsigned width, unsigned height)
{
	*p = (struct pixels){.width = width, .height = height, .rgb = calloc(width, 3 * height)};
	assert_non_null(p->rgb);
}

static void paint(struct pixels *p, unsigned x, unsigned y, unsigned red, unsigned green,
		  unsigned blue)
{
	uint8_t *rgb = p->rgb + 3 * ((size_t)y * p->width + x);

	rgb[0] = (uint8_t)red;
	rgb[1] = (uint8_t)green;
	rgb[2] = (uint8_t)blue;
}

/* The largest difference of a channel, in percent. */
static int draw_and_compare(const struct pixels *p, unsigned colours)
{
	_cleanup_(buf_done) struct buf text = BUF(SIXEL_BYTES_MAX);
	_cleanup_(pixels_done) struct pixels drawn = {0};
	int most = 0;

	assert_int_equal(sixel_append(&text, p, colours), 0);
	assert_true(sixel_is_sound(text.data, text.len, p->width, p->height, colours));
	sixel_draw(buf_str(&text), &drawn);
	assert_int_equal(drawn.width, p->width);
	assert_int_equal(drawn.height, p->height);
	for (size_t i = 0; i < (size_t)3 * p->width * p->height; i++) {
		int off = abs((p->rgb[i] * 100 + 127) / 255 - drawn.rgb[i]);

		most = off > most ? off : most;
	}
	return most;
}

static void few_colours_are_themselves(void **state)
{
	_cleanup_(pixels_done) struct pixels p = {0};

	(void)state;
	fill(&p, 37, 23);
	for (unsigned y = 0; y < p.height; y++)
		for (unsigned x = 0; x < p.width; x++)
			paint(&p, x, y, x % 5 * 60, y % 4 * 80, (x + y) % 2 * 255);
	assert_int_equal(draw_and_compare(&p, 256), 0);
}

static void many_colours_are_near(void **state)
{
	_cleanup_(pixels_done) struct pixels p = {0};

	(void)state;
	fill(&p, 256, 256);
	for (unsigned y = 0; y < p.height; y++)
		for (unsigned x = 0; x < p.width; x++)
			paint(&p, x, y, x, y, (x + y) / 2);
	assert_in_range(draw_and_compare(&p, 256), 1, 12);
	assert_in_range(draw_and_compare(&p, 16), 1, 35);
	assert_in_range(draw_and_compare(&p, 2), 1, 100);
}

static void odd_sizes(void **state)
{
	static const unsigned sides[] = {1, 2, 5, 6, 7, 12, 13};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(sides); i++)
		for (size_t k = 0; k < ARRAY_LEN(sides); k++) {
			_cleanup_(pixels_done) struct pixels p = {0};

			fill(&p, sides[i], sides[k]);
			paint(&p, sides[i] - 1, sides[k] - 1, 255, 0, 255);
			assert_int_equal(draw_and_compare(&p, 2), 0);
		}
}

static void bounds(void **state)
{
	_cleanup_(buf_done) struct buf text = BUF(100), small = BUF(10);
	_cleanup_(pixels_done) struct pixels p = {0};

	(void)state;
	fill(&p, 10, 10);
	assert_int_equal(sixel_append(&text, &p, 1), -EFBIG);
	assert_int_equal(sixel_append(&text, &p, 257), -EFBIG);
	assert_int_equal(sixel_append(&small, &p, 2), -EFBIG);
	p.width = SIXEL_SIDE_MAX + 1;
	assert_int_equal(sixel_append(&text, &p, 2), -EFBIG);
	p.width = 0;
	assert_int_equal(sixel_append(&text, &p, 2), -EFBIG);
}

static void sizes_that_fit(void **state)
{
	static const struct {
		unsigned from[2], room[2], to[2];
	} rows[] = {
		{{100, 50}, {200, 200}, {100, 50}}, {{100, 50}, {50, 200}, {50, 25}},
		{{100, 50}, {200, 10}, {20, 10}},   {{100, 50}, {40, 10}, {20, 10}},
		{{20000, 1}, {100, 100}, {100, 1}}, {{1, 20000}, {100, 100}, {1, 100}},
		{{20000, 800}, {1, 1}, {1, 1}},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct pixels size = {.width = rows[i].from[0], .height = rows[i].from[1]};

		pixels_fit(&size, rows[i].room[0], rows[i].room[1]);
		assert_int_equal(size.width, rows[i].to[0]);
		assert_int_equal(size.height, rows[i].to[1]);
	}
}

static void a_smaller_one_has_the_means(void **state)
{
	_cleanup_(pixels_done) struct pixels p = {0}, small = {.width = 2, .height = 1};

	(void)state;
	fill(&p, 4, 2);
	paint(&p, 0, 0, 100, 0, 0);
	paint(&p, 1, 1, 100, 0, 40);
	for (unsigned i = 0; i < 4; i++)
		paint(&p, 2 + i % 2, i / 2, 9, 99, 199);
	assert_int_equal(pixels_shrink(&p, &small), 0);
	assert_memory_equal(small.rgb, ((uint8_t[]){50, 0, 10, 9, 99, 199}), 6);
}

static void what_is_unsound(void **state)
{
	static const char *const good[] = {
		"\"1;1;4;6",
		"\"1;1;4;7#0;2;100;0;50#0~~~~$#1@-~",
		"\"1;1;4;6#1!4~$!3?@",
	};
	static const char *const bad[] = {
		"",
		"~",
		"\"1;1;4",
		"\"1;1;0;6",
		"\"1;1;5;6",
		"\"1;1;4;8",
		"\"2;1;4;6",
		"\"1;1;4;6~~~~~",
		"\"1;1;4;6!5~",
		"\"1;1;4;6~!4~",
		"\"1;1;4;6!99999999999999999999~",
		"\"1;1;4;6!4",
		"\"1;1;4;6!~",
		"\"1;1;4;6-~",
		"\"1;1;4;7-~-~",
		"\"1;1;4;6#2",
		"\"1;1;4;6#",
		"\"1;1;4;6#0;2;101;0;0",
		"\"1;1;4;6#0;1;0;0;0",
		"\"1;1;4;6#0;2;0;0",
		"\"1;1;4;6 ",
		"\"1;1;4;6\n",
		"\"1;1;4;6\033\\",
		"\"1;1;4;6\x9c",
		"\"1;1;4;6\"1;1;9;9",
		"\"1;1;4;6\x7f",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(good); i++)
		if (!sixel_is_sound(good[i], strlen(good[i]), 4, 7, 2))
			fail_msg("%s", good[i]);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		if (sixel_is_sound(bad[i], strlen(bad[i]), 4, 7, 2))
			fail_msg("%s", bad[i]);
	assert_false(sixel_is_sound("\"1;1;4;6\0~", 10, 4, 7, 2));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(few_colours_are_themselves),
		cmocka_unit_test(many_colours_are_near),
		cmocka_unit_test(odd_sizes),
		cmocka_unit_test(bounds),
		cmocka_unit_test(sizes_that_fit),
		cmocka_unit_test(a_smaller_one_has_the_means),
		cmocka_unit_test(what_is_unsound),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
