#include "cli/options.h"

#include "base/attr.h"
#include "base/words.h"

#include <stdio.h>
#include <string.h>

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

void options_print(const struct option_row *rows, size_t n_rows)
{
	for (size_t i = 0; i < n_rows; i++) {
		char left[64], letter[8] = "    ";

		if (rows[i].letter)
			(void)snprintf(letter, sizeof(letter), "-%c, ", rows[i].letter);
		(void)snprintf(left, sizeof(left), "%s--%s%s%s", letter, rows[i].name,
			       rows[i].argument ? " " : "",
			       rows[i].argument ? rows[i].argument : "");
		(void)printf("  %-32s %s\n", left, rows[i].help);
	}
}
