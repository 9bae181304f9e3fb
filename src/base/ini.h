/*
 * ini.h: the shim over inih, stricter than it: whatever inih would quietly cut,
 * join or skip is an error here.
 *
 * A line is a [section], a key = value (or key: value), a comment that begins
 * with '#' or ';', or empty. White space around it does not matter. There are no
 * comments behind a value, because a path may well hold a '#' or ';': white
 * space followed by one of them is an error. Lines other than comments have at
 * most INI_LINE_MAX bytes (what a stock inih reads in one piece), section names
 * at most INI_SECTION_MAX.
 */
#pragma once

#define INI_LINE_MAX    198
#define INI_SECTION_MAX 49

struct cay_ini_item {
	int line;
	const char *section;
	const char *key; /* NULL: here the section begins, and there is no value */
	const char *value;
};

/* Returns 0 to go on; anything else stops and marks the line as wrong. */
typedef int ini_item_fn(void *ctx, const struct cay_ini_item *item);

/*
 * Calls fn for each section and each key of the text, in order. Returns 0, the
 * number of the line that is no INI or that fn refused, or -ENOMEM. *ret_why
 * says in words what is wrong with the line, and is NULL where fn refused it.
 * Nothing after a wrong line is looked at.
 */
int ini_each(const char *text, ini_item_fn *fn, void *ctx, const char **ret_why);
