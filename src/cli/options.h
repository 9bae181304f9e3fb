/*
 * options.h: options as a table: one row gives the parser, the help text and
 * the completion. Long options may be shortened to what is unambiguous.
 */
#pragma once

#include "base/attr.h"
#include "core/error.h"

#include <stdbool.h>
#include <stddef.h>

struct option_row;

typedef int option_setter(void *ctx, const struct option_row *row, const char *value,
			  struct cay_error *err);

struct option_row {
	char letter;      /* 0: none */
	const char *name; /* without the dashes */
	/*
	 * "SIZE"; NULL: takes none. Completion goes by it: FILE, DIR and SRC are names of
	 * files, LANGUAGE and NAME[@VERSION] runtimes, a|b|c is one of these.
	 */
	const char *argument;
	const char *help; /* NULL: known, and refused as not supported yet */
	option_setter *set;
	size_t at; /* in ctx, for OPTION_STORE */
};

#define OPTION_SETTER(name)                                                 \
	int name(void *ctx _unused_, const struct option_row *row _unused_, \
		 const char *value _unused_, struct cay_error *err _unused_)

/* A row that only stores: true in a bool, or its value, which is argv's. */
#define OPTION_STORE(type, member) \
	.set = _Generic(((type *)0)->member, bool            \
			: option_store_flag, const char *    \
			: option_store_text),                \
	.at = offsetof(type, member)

option_setter option_store_flag, option_store_text;

/*
 * Parses up to the first word that is no option. *ret_rest is the index of
 * what follows; *ret_dashes whether "--" stood before it. An unknown option
 * is CAY_E_INVALID with the nearest known one as a hint. Returns 1 when
 * --help was given, else 0 or -1.
 */
int options_parse(const struct option_row *rows, size_t n_rows, int argc, char **argv, void *ctx,
		  int *ret_rest, bool *ret_dashes, struct cay_error *err);

/*
 * The same where words and options may be mixed, up to a "--". Fills words, which
 * has room for max; one more is CAY_E_INVALID. Those not there are NULL.
 */
int options_parse_words(const struct option_row *rows, size_t n_rows, int argc, char **argv,
			void *ctx, const char **ret_words, size_t max, struct cay_error *err);

/* The row whose value is the word after this one: of "--code", "-c", "-qc"; NULL if none is. */
const struct option_row *options_awaiting(const struct option_row *rows, size_t n_rows,
					  const char *word);

/* The rows as help text on stdout. */
void options_print(const struct option_row *rows, size_t n_rows);
