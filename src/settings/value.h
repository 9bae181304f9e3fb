/*
 * value.h: one value of a settings file, from text and to it. A value that can't be is
 * CAY_E_INVALID and says what is expected.
 */
#pragma once

#include "core/error.h"
#include "core/limit.h"
#include "settings/rows.h"

#include <sys/types.h>

#define VALUE_SIZE 32

void value_init(void *base, const struct row *row);

/* *ret_index is where the text was added in a list, or -1. */
int value_set(void *base, const struct row *row, const char *text, ssize_t *ret_index,
	      struct cay_error *err);

/* zero: it may be "0", for "not limited". */
int value_set_limit(struct limits *limits, const struct limit_row *row, bool zero, const char *text,
		    struct cay_error *err);

typedef void value_show_fn(void *ctx, const char *key, ssize_t index, const char *value);

/* Calls fn with what value_set() would take again: once for each item of a list. */
void value_show(const void *base, const struct row *row, value_show_fn *fn, void *ctx);
void value_show_limit(const struct limits *limits, const struct limit_row *row, value_show_fn *fn,
		      void *ctx);
