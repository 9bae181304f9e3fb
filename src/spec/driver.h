/*
 * driver.h: the programs that keep an interpreter for cells (src/context), one for each language
 * that has contexts, as text: it is an argument of the interpreter's, and no file on an island.
 */
#pragma once

#include <stdbool.h>

struct language;

/* NULL: the language has none. */
const char *driver_text(const struct language *l);

/* What it is started by, in the words of a language's row, the text behind them; NULL: as code is.
 */
const char *const *driver_words(const struct language *l);

/* Whether it is sent a cell's code as it is, and not as JSON. */
bool driver_is_plain(const struct language *l);
