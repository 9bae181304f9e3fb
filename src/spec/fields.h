/*
 * fields.h: reads JSON objects by tables of their names, one row a name. What
 * is wrong is an error with the path of its field in front: "files[2].path: …".
 */
#pragma once

#include "base/json.h"
#include "base/strv.h"
#include "core/error.h"
#include "core/limits.h"

#include <stddef.h>

/* Kinds of values that a field takes, as bits. */
enum {
	TAKES_BOOL = 1 << JSON_KIND_BOOL,
	TAKES_STR = 1 << JSON_KIND_STR,
	TAKES_INT = 1 << JSON_KIND_INT,
	TAKES_NUMBER = 1 << JSON_KIND_INT | 1 << JSON_KIND_REAL,
	TAKES_ARRAY = 1 << JSON_KIND_ARRAY,
	TAKES_OBJECT = 1 << JSON_KIND_OBJECT,
};

struct reader {
	void *into;           /* the setters' own */
	unsigned place;       /* which of the rows belong here, as a bit of theirs */
	const char *place_is; /* in words: "a run" */
	char path[160];       /* of the value at hand; after a failure, of the wrong one */
};

typedef int field_set_fn(struct reader *r, const struct json *v, struct cay_error *err);

struct field {
	const char *name;
	unsigned takes;
	field_set_fn *set;
	unsigned places; /* 0: wherever the object may be */
};

/*
 * A text that should be an object, with errors in words: CAY_E_TOO_LARGE for more
 * than max bytes, CAY_E_INVALID for what is no JSON or no object. The caller frees it.
 */
int fields_parse(const char *text, size_t len, size_t max, struct json **ret,
		 struct cay_error *err);

/*
 * First each name in the object is looked up, so that a misspelt one is found
 * whatever else is wrong; then the rows are gone through in their order, so that
 * a setter may rely on those above it. A failure leaves the path in r.
 */
int fields_read(struct reader *r, const struct field *fields, size_t n, const struct json *object,
		struct cay_error *err);

/* The same, but names that are not in the table are passed over: others may write more. */
int fields_read_known(struct reader *r, const struct field *fields, size_t n,
		      const struct json *object, struct cay_error *err);

/* Puts the path in front of an error. Returns -1. */
int reader_fail(const struct reader *r, struct cay_error *err);

/* A name or place further down; the answer leads back by reader_leave(), if all went well. */
size_t reader_enter(struct reader *r, const char *name);
size_t reader_enter_at(struct reader *r, size_t i);
void reader_leave(struct reader *r, size_t len);

/* Each gives 0, or -1 and what is wrong, without a path. */

int field_invalid(struct cay_error *err, const char *what);
int field_no_memory(struct cay_error *err);
int field_too_many(struct cay_error *err, int max);
int field_later(struct cay_error *err, const char *hint); /* CAY_E_UNSUPPORTED */
int field_check_kind(const struct json *v, unsigned takes, struct cay_error *err);

/* A string without NUL, borrowed; NULL is a failure. */
const char *field_str(const struct json *v, struct cay_error *err);

/* A copy, which replaces *ret; with base64, of what it stands for. */
int field_copy(const struct json *v, char **ret, struct cay_error *err);
int field_bytes(const struct json *v, char **ret, size_t *ret_len, struct cay_error *err);
int field_base64(const struct json *v, size_t max, char **ret, size_t *ret_len,
		 struct cay_error *err);

/* An array of strings. */
int field_strings(struct reader *r, const struct json *v, struct strv *ret, struct cay_error *err);

/* A number, or a string in place of one, as text: exact, and without an exponent where one fits. */
const char *field_number(const struct json *v, char *text, size_t size);

/* One limit of an object of them: a number (bytes, seconds, cores) or a string as "512m". */
int field_limit(const struct json *v, const char *name, struct limits *ret, struct cay_error *err);
