#include "base/words.h"

#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static void distances(void **state)
{
	(void)state;
	assert_int_equal(words_distance("", ""), 0);
	assert_int_equal(words_distance("abc", "abc"), 0);
	assert_int_equal(words_distance("abc", ""), 3);
	assert_int_equal(words_distance("", "abc"), 3);
	assert_int_equal(words_distance("abc", "abd"), 1);
	assert_int_equal(words_distance("abc", "ab"), 1);
	assert_int_equal(words_distance("bc", "abc"), 1);
	assert_int_equal(words_distance("abc", "bac"), 1);
	assert_int_equal(words_distance("kitten", "sitting"), 3);
}

static void long_words_are_far_away(void **state)
{
	char word[4096];

	(void)state;
	memset(word, 'a', sizeof(word));
	word[sizeof(word) - 1] = '\0';
	assert_true(words_distance(word, "a") == SIZE_MAX);
	assert_true(words_distance("a", word) == SIZE_MAX);
}

static const char *guess_of(const char *typed)
{
	static const char *const words[] = {"python", "node", "sh", "ruby"};
	struct guess g = GUESS(typed);

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		guess_offer(&g, words[i]);
	return g.meant ? g.meant : "";
}

static void guesses(void **state)
{
	(void)state;
	assert_string_equal(guess_of("pyhton"), "python");
	assert_string_equal(guess_of("pythonn"), "python");
	assert_string_equal(guess_of("noed"), "node");
	assert_string_equal(guess_of("rubby"), "ruby");
}

static void no_wild_guesses(void **state)
{
	(void)state;
	assert_string_equal(guess_of(""), "");
	assert_string_equal(guess_of("no"), "");
	assert_string_equal(guess_of("foo"), "");
	assert_string_equal(guess_of("cobol"), "");
	assert_string_equal(guess_of("klingon"), "");
}

static void the_nearest_wins(void **state)
{
	struct guess g = GUESS("memorie");

	(void)state;
	guess_offer(&g, "memories");
	guess_offer(&g, "memory");
	assert_string_equal(g.meant, "memories");
	guess_offer(&g, "memorie");
	assert_string_equal(g.meant, "memorie");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(distances),        cmocka_unit_test(long_words_are_far_away),
		cmocka_unit_test(guesses),          cmocka_unit_test(no_wild_guesses),
		cmocka_unit_test(the_nearest_wins),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
