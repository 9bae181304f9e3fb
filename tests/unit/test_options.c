#include "cli/options.h"

#include "base/attr.h"
#include "base/buf.h"

#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

/* What was set, in order: "name=value;" or "name;". */
static char seen[256];

static int note(void *ctx, const struct option_row *row, const char *value, struct cay_error *err)
{
	size_t len = strlen(seen);

	assert_ptr_equal(ctx, seen);
	if (value && strcmp(value, "bad") == 0)
		return cay_fail(err, CAY_E_CONFLICT, 0, "%s was bad", row->name);
	(void)snprintf(seen + len, sizeof(seen) - len, "%s%s%s;", row->name, value ? "=" : "",
		       value ? value : "");
	return 0;
}

static const struct option_row rows[] = {
	{'c', "code", "CODE", "the code", .set = note},
	{'e', "env", "K=V", "a variable", .set = note},
	{0, "env-file", "FILE", "many variables", .set = note},
	{'m', "memory", "SIZE", "how much", .set = note},
	{'q', "quiet", NULL, "say little", .set = note},
	{'v', "verbose", NULL, "say much", .set = note},
	{0, "json", NULL, "as JSON", .set = note},
};

#define WORDS_MAX 16

struct parsed {
	int r, rest;
	bool dashes;
	struct cay_error err;
};

/* Parses the words, which end with a NULL; argv[0] is the verb. */
static struct parsed parse_words(const char *const *words)
{
	struct parsed p = {.rest = -1, .dashes = true};
	char *argv[WORDS_MAX + 2] = {(char *)"run"};
	int argc = 1;

	for (; *words; words++) {
		assert_true(argc <= WORDS_MAX);
		argv[argc++] = (char *)*words;
	}
	seen[0] = '\0';
	p.r = options_parse(rows, ARRAY_LEN(rows), argc, argv, seen, &p.rest, &p.dashes, &p.err);
	return p;
}

static void check_ok(const char *const *words, const char *expected, int rest, bool dashes)
{
	struct parsed p = parse_words(words);

	if (p.r < 0)
		fail_msg("%s", p.err.text);
	assert_int_equal(p.r, 0);
	assert_string_equal(seen, expected);
	assert_int_equal(p.rest, rest);
	assert_int_equal(p.dashes, dashes);
}

static void check_bad(const char *const *words, const char *text, const char *hint)
{
	struct parsed p = parse_words(words);

	if (p.r != -1)
		fail_msg("'%s' was taken", words[0]);
	assert_int_equal(p.err.code, CAY_E_INVALID);
	assert_string_equal(p.err.text, text);
	assert_string_equal(p.err.hint, hint);
}

#define W(...)   ((const char *const[]){__VA_ARGS__, NULL})
#define NO_WORDS ((const char *const[]){NULL})
#define SEE_HELP "--help lists the options"

static void long_options(void **state)
{
	(void)state;
	check_ok(NO_WORDS, "", 1, false);
	check_ok(W("--code", "x"), "code=x;", 3, false);
	check_ok(W("--code=x"), "code=x;", 2, false);
	check_ok(W("--code="), "code=;", 2, false);
	check_ok(W("--code=a=b"), "code=a=b;", 2, false);
	check_ok(W("--code", ""), "code=;", 3, false);
	check_ok(W("--quiet", "--json"), "quiet;json;", 3, false);
	/* A value is a value, also when it looks like an option. */
	check_ok(W("--code", "--json", "--json"), "code=--json;json;", 4, false);
	check_ok(W("--code", "--"), "code=--;", 3, false);
	check_ok(W("--code", "--help"), "code=--help;", 3, false);
}

static void letters(void **state)
{
	(void)state;
	check_ok(W("-c", "x"), "code=x;", 3, false);
	check_ok(W("-cx"), "code=x;", 2, false);
	check_ok(W("-c=x"), "code==x;", 2, false);
	check_ok(W("-c", "-q"), "code=-q;", 3, false);
	check_ok(W("-e", "A=1", "-eB=2"), "env=A=1;env=B=2;", 4, false);
}

static void clusters(void **state)
{
	(void)state;
	check_ok(W("-qv"), "quiet;verbose;", 2, false);
	check_ok(W("-qvq"), "quiet;verbose;quiet;", 2, false);
	check_ok(W("-qcx"), "quiet;code=x;", 2, false);
	check_ok(W("-qc", "x", "-v"), "quiet;code=x;verbose;", 4, false);
	check_ok(W("-qcv"), "quiet;code=v;", 2, false);
	assert_int_equal(parse_words(W("-qz")).r, -1);
	assert_int_equal(parse_words(W("-qz")).err.code, CAY_E_INVALID);
	check_bad(W("-qc"), "--code needs a value: CODE", "");
}

static void abbreviations(void **state)
{
	(void)state;
	check_ok(W("--mem", "1g"), "memory=1g;", 3, false);
	check_ok(W("--m=1g"), "memory=1g;", 2, false);
	check_ok(W("--verb"), "verbose;", 2, false);
	check_ok(W("--env-", "f"), "env-file=f;", 3, false);
	/* A full name wins over a longer one that begins with it. */
	check_ok(W("--env", "A=1"), "env=A=1;", 3, false);
	check_ok(W("--env=A=1"), "env=A=1;", 2, false);
	/* What two begin with is neither. */
	assert_int_equal(parse_words(W("--en", "A=1")).r, -1);
	assert_string_equal(seen, "");
	assert_int_equal(parse_words(W("--=x")).r, -1);
}

static void ends_of_options(void **state)
{
	(void)state;
	check_ok(W("file", "-q"), "", 1, false);
	check_ok(W("-q", "file", "-v"), "quiet;", 2, false);
	check_ok(W("-"), "", 1, false);
	check_ok(W("-q", "-", "-v"), "quiet;", 2, false);
	check_ok(W("--", "-q"), "", 2, true);
	check_ok(W("-q", "--"), "quiet;", 3, true);
	check_ok(W("-q", "--", "--", "x"), "quiet;", 3, true);
	check_ok(W(""), "", 1, false);
}

static void missing_values(void **state)
{
	(void)state;
	check_bad(W("--code"), "--code needs a value: CODE", "");
	check_bad(W("-q", "--memory"), "--memory needs a value: SIZE", "");
	check_bad(W("--mem"), "--memory needs a value: SIZE", "");
	check_bad(W("-m"), "--memory needs a value: SIZE", "");
	check_bad(W("--quiet=yes"), "--quiet takes no value", "");
	check_bad(W("--quiet="), "--quiet takes no value", "");
	check_bad(W("--js=1"), "--json takes no value", "");
}

static void did_you_mean(void **state)
{
	(void)state;
	check_bad(W("--memry", "1"), "unknown option '--memry'", "did you mean --memory?");
	check_bad(W("--jsno"), "unknown option '--jsno'", "did you mean --json?");
	check_bad(W("--Quiet"), "unknown option '--Quiet'", "did you mean --quiet?");
	check_bad(W("--env_file", "x"), "unknown option '--env_file'", "did you mean --env-file?");
}

static void no_wild_guesses(void **state)
{
	(void)state;
	check_bad(W("--nothing-like-it"), "unknown option '--nothing-like-it'", SEE_HELP);
	check_bad(W("-z"), "unknown option '-z'", SEE_HELP);
	check_bad(W("--z"), "unknown option '--z'", SEE_HELP);
}

/* Three changes to a name of three letters leave nothing of it. */
static void guesses_are_near(void **state)
{
	(void)state;
	check_bad(W("--foo"), "unknown option '--foo'", SEE_HELP);
	check_bad(W("-qz"), "unknown option '-qz'", SEE_HELP);
}

/* The value behind the '=' says nothing about the name. */
static void did_you_mean_looks_at_the_name(void **state)
{
	struct parsed p = parse_words(W("--memry=512m"));

	(void)state;
	assert_int_equal(p.r, -1);
	assert_string_equal(p.err.hint, "did you mean --memory?");
	assert_non_null(strstr(p.err.text, "--memry"));
}

static void long_words_are_survived(void **state)
{
	char word[4096];
	struct parsed p;

	(void)state;
	memset(word, 'a', sizeof(word));
	word[0] = word[1] = '-';
	word[sizeof(word) - 1] = '\0';
	p = parse_words(W(word));
	assert_int_equal(p.r, -1);
	assert_true(strlen(p.err.text) < 100);
}

static void errors_of_rows_pass(void **state)
{
	struct parsed p = parse_words(W("-q", "--code", "bad", "-v"));

	(void)state;
	assert_int_equal(p.r, -1);
	assert_int_equal(p.err.code, CAY_E_CONFLICT);
	assert_string_equal(p.err.text, "code was bad");
	assert_string_equal(seen, "quiet;"); /* and nothing after it */
	assert_int_equal(parse_words(W("-qcbad")).r, -1);
}

static void help(void **state)
{
	(void)state;
	assert_int_equal(parse_words(W("--help")).r, 1);
	assert_int_equal(parse_words(W("-q", "-h", "--unknown")).r, 1);
	/* Behind the end of the options it is somebody else's. */
	check_ok(W("file", "--help"), "", 1, false);
	check_ok(W("--", "--help"), "", 2, true);
}

/* Words and options in any order; returns what options_parse_words() does. */
static int parse_mixed(const char *const *words, const char **ret, size_t max,
		       struct cay_error *err)
{
	char *argv[WORDS_MAX + 2] = {(char *)"verb"};
	int argc = 1;

	for (; *words; words++)
		argv[argc++] = (char *)*words;
	seen[0] = '\0';
	return options_parse_words(rows, ARRAY_LEN(rows), argc, argv, seen, ret, max, err);
}

static void check_mixed(const char *const *words, const char *expected, const char *first,
			const char *second)
{
	const char *got[2];
	struct cay_error err;

	assert_int_equal(parse_mixed(words, got, 2, &err), 0);
	assert_string_equal(seen, expected);
	assert_string_equal(got[0] ? got[0] : "", first);
	assert_string_equal(got[1] ? got[1] : "", second);
}

static void words_and_options_mix(void **state)
{
	struct cay_error err;
	const char *word;

	(void)state;
	check_mixed(NO_WORDS, "", "", "");
	check_mixed(W("a"), "", "a", "");
	check_mixed(W("-q", "a", "--json", "b"), "quiet;json;", "a", "b");
	check_mixed(W("a", "b", "-c", "x"), "code=x;", "a", "b");
	check_mixed(W("a", "--", "-q"), "", "a", "-q");
	check_mixed(W("--", "-q", "--json"), "", "-q", "--json");
	assert_int_equal(parse_mixed(W("a", "--help"), &word, 1, &err), 1);
	assert_int_equal(parse_mixed(W("a", "--jsno"), &word, 1, &err), -1);
	assert_int_equal(parse_mixed(W("a", "b"), &word, 1, &err), -1);
	assert_string_equal(err.text, "cay verb: one word too many: 'b'");
	assert_int_equal(parse_mixed(W("a"), NULL, 0, &err), -1);
}

static void rows_that_store(void **state)
{
	struct stored {
		const char *before, *code, *name;
		bool first, json, last;
	} got = {0};
	static const struct option_row storing[] = {
		{'c', "code", "CODE", "the code", OPTION_STORE(struct stored, code)},
		{0, "name", "NAME", "its name", OPTION_STORE(struct stored, name)},
		{0, "json", NULL, "as JSON", OPTION_STORE(struct stored, json)},
	};
	char verb[] = "verb", code[] = "-cfirst", again[] = "--code=last", json[] = "--json";
	char *argv[] = {verb, code, again, json, NULL};
	struct cay_error err;
	bool dashes;
	int rest;

	(void)state;
	assert_int_equal(
		options_parse(storing, ARRAY_LEN(storing), 4, argv, &got, &rest, &dashes, &err), 0);
	assert_ptr_equal(got.code, again + strlen("--code="));
	assert_null(got.before);
	assert_null(got.name);
	assert_true(got.json);
	assert_false(got.first || got.last);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(long_options),
		cmocka_unit_test(letters),
		cmocka_unit_test(clusters),
		cmocka_unit_test(abbreviations),
		cmocka_unit_test(ends_of_options),
		cmocka_unit_test(missing_values),
		cmocka_unit_test(did_you_mean),
		cmocka_unit_test(no_wild_guesses),
		cmocka_unit_test(guesses_are_near),
		cmocka_unit_test(did_you_mean_looks_at_the_name),
		cmocka_unit_test(long_words_are_survived),
		cmocka_unit_test(errors_of_rows_pass),
		cmocka_unit_test(help),
		cmocka_unit_test(words_and_options_mix),
		cmocka_unit_test(rows_that_store),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
