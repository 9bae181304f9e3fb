#include "cli/options.h"

#include "base/attr.h"
#include "base/words.h"

#include <stdio.h>
#include <string.h>

OPTION_SETTER(option_store_flag)
{
	*(bool *)((char *)ctx + row->at) = true;
	return 0;
}

OPTION_SETTER(option_store_text)
{
	*(const char **)((char *)ctx + row->at) = value;
	return 0;
}

static int unknown(const struct option_row *rows, size_t n_rows, const char *word,
		   struct cay_error *err)
{
	size_t dashes = strspn(word, "-"), len = strcspn(word + dashes, "=");
	char name[48];
	struct guess guess = GUESS(name);

	(void)snprintf(name, sizeof(name), "%.*s", (int)size_min(len, sizeof(name) - 1),
		       word + dashes);
	for (size_t i = 0; i < n_rows; i++)
		guess_offer(&guess, rows[i].name);
	(void)cay_fail(err, CAY_E_INVALID, 0, "unknown option '%.*s'",
		       (int)size_min(dashes + len, 64), word);
	return guess.meant ? cay_hint(err, "did you mean --%s?", guess.meant)
			   : cay_hint(err, "--help lists the options");
}

/* By full name, or by a beginning that only one has. */
static const struct option_row *find_long(const struct option_row *rows, size_t n_rows,
					  const char *name, size_t len)
{
	const struct option_row *found = NULL;
	size_t n = 0;

	for (size_t i = 0; i < n_rows; i++) {
		if (strncmp(rows[i].name, name, len) != 0)
			continue;
		if (rows[i].name[len] == '\0')
			return &rows[i];
		found = &rows[i];
		n++;
	}
	return n == 1 ? found : NULL;
}

static const struct option_row *find_letter(const struct option_row *rows, size_t n_rows, char c)
{
	for (size_t i = 0; i < n_rows; i++)
		if (rows[i].letter == c)
			return &rows[i];
	return NULL;
}

struct cursor {
	int argc, at;
	char **argv;
};

static int set_option(const struct option_row *row, const char *value, struct cursor *c, void *ctx,
		      struct cay_error *err)
{
	if (row->argument && !value) {
		if (c->at + 1 >= c->argc)
			return cay_fail(err, CAY_E_INVALID, 0, "--%s needs a value: %s", row->name,
					row->argument);
		value = c->argv[++c->at];
	}
	if (!row->argument && value)
		return cay_fail(err, CAY_E_INVALID, 0, "--%s takes no value", row->name);
	return row->set(ctx, row, value, err);
}

static int parse_long(const struct option_row *rows, size_t n_rows, struct cursor *c, void *ctx,
		      struct cay_error *err)
{
	const char *word = c->argv[c->at] + 2;
	size_t len = strcspn(word, "=");
	const struct option_row *row = find_long(rows, n_rows, word, len);

	if (!row)
		return unknown(rows, n_rows, c->argv[c->at], err);
	return set_option(row, word[len] ? word + len + 1 : NULL, c, ctx, err);
}

/* -c CODE, -cCODE, -abc for letters without values. */
static int parse_letters(const struct option_row *rows, size_t n_rows, struct cursor *c, void *ctx,
			 struct cay_error *err)
{
	for (const char *p = c->argv[c->at] + 1; *p; p++) {
		const struct option_row *row = find_letter(rows, n_rows, *p);

		if (!row)
			return unknown(rows, n_rows, c->argv[c->at], err);
		if (row->argument)
			return set_option(row, p[1] ? p + 1 : NULL, c, ctx, err);
		if (set_option(row, NULL, c, ctx, err) < 0)
			return -1;
	}
	return 0;
}

int options_parse(const struct option_row *rows, size_t n_rows, int argc, char **argv, void *ctx,
		  int *ret_rest, bool *ret_dashes, struct cay_error *err)
{
	struct cursor c = {.argc = argc, .at = 1, .argv = argv};

	*ret_dashes = false;
	for (; c.at < argc; c.at++) {
		const char *word = argv[c.at];
		int r;

		if (word[0] != '-' || word[1] == '\0')
			break;
		if (strcmp(word, "--") == 0) {
			*ret_dashes = true;
			c.at++;
			break;
		}
		if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)
			return 1;
		r = word[1] == '-' ? parse_long(rows, n_rows, &c, ctx, err)
				   : parse_letters(rows, n_rows, &c, ctx, err);
		if (r < 0)
			return -1;
	}
	*ret_rest = c.at;
	return 0;
}

int options_parse_words(const struct option_row *rows, size_t n_rows, int argc, char **argv,
			void *ctx, const char **ret_words, size_t max, struct cay_error *err)
{
	size_t n = 0;
	bool dashes = false;

	for (size_t i = 0; i < max; i++)
		ret_words[i] = NULL;
	for (int at = 0; at < argc; at++) {
		int rest = 1;
		int r = dashes ? 0
			       : options_parse(rows, n_rows, argc - at, argv + at, ctx, &rest,
					       &dashes, err);

		if (r != 0)
			return r;
		at += rest - 1;
		if (at + 1 >= argc)
			return 0;
		if (n == max)
			return cay_fail(err, CAY_E_INVALID, 0, "cay %s: one word too many: '%.64s'",
					argv[0], argv[at + 1]);
		ret_words[n++] = argv[at + 1];
	}
	return 0;
}

const struct option_row *options_awaiting(const struct option_row *rows, size_t n_rows,
					  const char *word)
{
	const struct option_row *row = NULL;

	if (strncmp(word, "--", 2) == 0) {
		row = find_long(rows, n_rows, word + 2, strlen(word + 2));
		return row && row->argument ? row : NULL;
	}
	for (const char *p = word + 1; *p; p++) {
		row = find_letter(rows, n_rows, *p);
		if (!row || row->argument)
			return row && !p[1] ? row : NULL;
	}
	return NULL;
}

/* One line, or more, for all that is known and refused. */
static void print_refused(const struct option_row *rows, size_t n_rows)
{
	static const char title[] = "  not supported yet:";
	size_t column = 0;

	for (size_t i = 0; i < n_rows; i++) {
		if (rows[i].help)
			continue;
		if (column == 0)
			column = (size_t)printf("%s", title);
		else if (column + strlen(rows[i].name) + 4 > 79)
			column = (size_t)printf("\n   ") - 1;
		column += (size_t)printf(" --%s", rows[i].name);
	}
	if (column > 0)
		(void)printf("\n");
}

/* "-c, --code CODE" into text. */
static const char *left_side(const struct option_row *row, char *text, size_t size)
{
	char letter[8] = "    ";

	if (row->letter)
		(void)snprintf(letter, sizeof(letter), "-%c, ", row->letter);
	(void)snprintf(text, size, "%s--%s%s%s", letter, row->name, row->argument ? " " : "",
		       row->argument ? row->argument : "");
	return text;
}

void options_print(const struct option_row *rows, size_t n_rows)
{
	char left[64];
	size_t width = 0;

	for (size_t i = 0; i < n_rows; i++)
		if (rows[i].help)
			width = size_max(width, strlen(left_side(&rows[i], left, sizeof(left))));
	for (size_t i = 0; i < n_rows; i++)
		if (rows[i].help)
			(void)printf("  %-*s  %s\n", (int)width,
				     left_side(&rows[i], left, sizeof(left)), rows[i].help);
	print_refused(rows, n_rows);
}
