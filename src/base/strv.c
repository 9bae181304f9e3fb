#include "base/strv.h"

#include "base/attr.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void strv_done(struct strv *v)
{
	for (size_t i = 0; i < v->len; i++)
		free(v->items[i]);
	free(v->items);
	v->items = NULL;
	v->len = v->cap = 0;
}

/* Takes s over, also on failure. */
static int add_own(struct strv *v, char *s)
{
	if (!s)
		return -ENOMEM;
	if (v->len >= STRV_MAX) {
		free(s);
		return -E2BIG;
	}
	if (v->len + 2 > v->cap) {
		size_t cap = v->cap ? v->cap * 2 : 8;
		char **items = reallocarray(v->items, cap, sizeof(*items));

		if (!items) {
			free(s);
			return -ENOMEM;
		}
		v->items = items;
		v->cap = cap;
	}
	v->items[v->len++] = s;
	v->items[v->len] = NULL;
	return 0;
}

int strv_add(struct strv *v, const char *s)
{
	return add_own(v, strdup(s));
}

int strv_addf(struct strv *v, const char *fmt, ...)
{
	char *s = NULL;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&s, fmt, ap);
	va_end(ap);
	return n < 0 ? -ENOMEM : add_own(v, s);
}

static char **find_env(const struct strv *v, const char *name)
{
	size_t n = strlen(name);

	for (size_t i = 0; i < v->len; i++)
		if (strncmp(v->items[i], name, n) == 0 && v->items[i][n] == '=')
			return &v->items[i];
	return NULL;
}

static int compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

void strv_sort(struct strv *v)
{
	if (v->len > 0)
		qsort(v->items, v->len, sizeof(*v->items), compare);
}

bool strv_has(const struct strv *v, const char *s)
{
	for (size_t i = 0; i < v->len; i++)
		if (strcmp(v->items[i], s) == 0)
			return true;
	return false;
}

int strv_set_env(struct strv *v, const char *name, const char *value)
{
	char **old = find_env(v, name);
	char *s;

	if (!old)
		return strv_addf(v, "%s=%s", name, value);
	if (asprintf(&s, "%s=%s", name, value) < 0)
		return -ENOMEM;
	free(*old);
	*old = s;
	return 0;
}

int strv_merge_env(struct strv *v, const struct strv *more)
{
	int r = 0;

	for (size_t i = 0; i < more->len && r == 0; i++) {
		char *item = more->items[i], *eq = strchr(item, '=');

		assert(eq);
		*eq = '\0';
		r = strv_set_env(v, item, eq + 1);
		*eq = '=';
	}
	return r;
}

const char *strv_get_env(const struct strv *v, const char *name)
{
	char **item = find_env(v, name);

	return item ? *item + strlen(name) + 1 : NULL;
}
