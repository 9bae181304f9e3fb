/*
 * strv.h: a list of strings that it owns, always followed by NULL, so that
 * .items is an argv.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define STRV_MAX 65536

struct strv {
	char **items; /* NULL while empty */
	size_t len, cap;
};

void strv_done(struct strv *v);

/* 0, -ENOMEM, or -E2BIG past STRV_MAX. */
int strv_add(struct strv *v, const char *s);
int strv_addf(struct strv *v, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

bool strv_has(const struct strv *v, const char *s);

/* By their bytes. */
void strv_sort(struct strv *v);

/* Sets NAME=VALUE in an environment list; a later value replaces an earlier one. */
int strv_set_env(struct strv *v, const char *name, const char *value);

/* Sets all that more has, each NAME=VALUE. */
int strv_merge_env(struct strv *v, const struct strv *more);

/* The value of NAME in an environment list, or NULL. */
const char *strv_get_env(const struct strv *v, const char *name);
