/*
 * table.h: rows of cells for people, on stdout. What others named becomes one harmless word.
 */
#pragma once

#include "base/strv.h"
#include "core/error.h"

#include <stddef.h>
#include <stdint.h>

#define TABLE_COLUMNS_MAX 8

struct table {
	size_t columns;
	struct strv cells; /* row by row, the first of them the title */
};

void table_done(struct table *t);

/* NULL and "" become "-". */
int table_add(struct table *t, const char *cell, struct cay_error *err);
int table_print(const struct table *t, struct cay_error *err);

/* "12 s", "5 min", "3 h", "2 days" into text; of what is negative, 0. */
const char *table_age(int64_t ms, char text[24]);
