/* argv, one word a line, by the names of `cay run`'s options. */
#include "fuzz.h"

#include "cli/cli.h"
#include "cli/options.h"

#define WORDS_MAX 64

struct taken {
	char **argv;
	int argc;
	int n;
};

/* A value is a word, or stands at the end of one. */
static int take(void *ctx, const struct option_row *row, const char *value,
		struct cay_error *err _unused_)
{
	struct taken *t = ctx;
	bool found = !value;

	CHECK(!row->argument == !value);
	for (int i = 1; i < t->argc && !found; i++)
		found = value >= t->argv[i] && value <= t->argv[i] + strlen(t->argv[i]);
	CHECK(found);
	t->n++;
	return 0;
}

static struct option_row *make_rows(const struct verb *v)
{
	struct option_row *rows = calloc(v->n_rows, sizeof(*rows));

	CHECK(rows);
	for (size_t i = 0; i < v->n_rows; i++) {
		rows[i] = v->rows[i];
		rows[i].set = take;
	}
	return rows;
}

/* Completion and parsing agree on which words are values. */
static void check_awaiting(const struct option_row *rows, size_t n, char *word)
{
	char value[] = "value", name[] = "run";
	char *argv[] = {name, word, value, NULL};
	struct taken t = {.argv = argv, .argc = 3};
	const struct option_row *row;
	struct cay_error err;
	bool dashes;
	int rest;

	if (word[0] != '-' || !word[1] || strcmp(word, "--") == 0)
		return;
	row = options_awaiting(rows, n, word);
	CHECK(!row || row->argument);
	if (options_parse(rows, n, 3, argv, &t, &rest, &dashes, &err) == 0)
		CHECK((rest == 3) == (row != NULL));
}

static void check_parse(const struct option_row *rows, size_t n, struct taken *t)
{
	struct cay_error err = {0};
	bool dashes;
	int rest = -1, r = options_parse(rows, n, t->argc, t->argv, t, &rest, &dashes, &err);

	CHECK(r == 0 || r == 1 || (r == -1 && err.code == CAY_E_INVALID));
	if (r != 0)
		return;
	CHECK(rest >= 1 && rest <= t->argc);
	if (dashes)
		CHECK(strcmp(t->argv[rest - 1], "--") == 0);
	else if (rest < t->argc)
		CHECK(t->argv[rest][0] != '-' || !t->argv[rest][1]);
}

static void check_words(const struct option_row *rows, size_t n, struct taken *t)
{
	const char *words[3];
	struct cay_error err = {0};
	int r = options_parse_words(rows, n, t->argc, t->argv, t, words, ARRAY_LEN(words), &err);

	CHECK(r == 0 || r == 1 || (r == -1 && err.code == CAY_E_INVALID));
	for (size_t i = 1; i < ARRAY_LEN(words); i++)
		CHECK(!words[i] || words[i - 1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = INPUT(data, size);
	_cleanup_(freep) struct option_row *rows = make_rows(&verb_run);
	char name[] = "run", *argv[WORDS_MAX + 1] = {name};
	struct taken t = {.argv = argv, .argc = 1};

	while (in.len > 0 && t.argc < WORDS_MAX)
		argv[t.argc++] = input_line(&in);
	check_parse(rows, verb_run.n_rows, &t);
	check_words(rows, verb_run.n_rows, &t);
	for (int i = 1; i < t.argc; i++)
		check_awaiting(rows, verb_run.n_rows, argv[i]);
	while (t.argc > 1)
		free(argv[--t.argc]);
	return 0;
}
