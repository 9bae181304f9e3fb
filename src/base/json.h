/*
 * json.h: the shim over jansson, to write and to read. A value is a struct json *.
 *
 * Writing: the setters take the value they are given over, also when they fail. Strings that are
 * not UTF-8 are mended (U+FFFD) on the way in, and reals that are not finite become null. Out of
 * memory while building is noticed once, by the thread's next json_text(): build one text at a
 * time.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json;
struct buf;

struct json *json_new_object(void);
struct json *json_new_array(void);
void json_free(struct json *j);
void json_freep(struct json **j);

/* The same value once more, for another place that keeps it; neither may be changed then. */
struct json *json_share(const struct json *j);

void json_set(struct json *object, const char *key, struct json *value);
void json_set_str(struct json *object, const char *key, const char *value); /* NULL: null */
void json_set_bytes(struct json *object, const char *key, const char *data, size_t len);
void json_set_int(struct json *object, const char *key, int64_t value);
void json_set_real(struct json *object, const char *key, double value);
void json_set_bool(struct json *object, const char *key, bool value);
void json_set_null(struct json *object, const char *key);

void json_add(struct json *array, struct json *value);
void json_add_str(struct json *array, const char *value);

/* Another hold on a value, to be freed as well; it is not to be changed from here on. */
struct json *json_ref(const struct json *j);

/*
 * Appends the text, one line with a newline, keys in the order they were set.
 * 0, -EFBIG past the buffer's maximum, or -ENOMEM when memory ran out, now or
 * while building. On failure a part may have been appended.
 */
int json_text(const struct json *j, struct buf *out);

/* Deeper nesting, or more values in one text, is refused before any memory is spent on it. */
#define JSON_DEPTH_MAX  64
#define JSON_VALUES_MAX (1u << 18)

/* Where a text is wrong, counted from 1, and how; one harmless line. */
struct json_fault {
	int line, column;
	char what[160];
};

/*
 * Reads one object or array and nothing after it. Strict: an error for duplicate
 * names, bad UTF-8, lone surrogates, NaN, Infinity, numbers that are out of an
 * int64_t's (or, with a fraction or exponent, a double's) range, and NUL in a
 * name. 0, -EFBIG for more than max bytes, -ENOMEM, or -EINVAL: *ret_fault says
 * where. The caller frees *ret.
 */
int json_parse(const char *text, size_t len, size_t max, struct json **ret,
	       struct json_fault *ret_fault);

enum json_kind {
	JSON_KIND_NULL,
	JSON_KIND_BOOL,
	JSON_KIND_INT,
	JSON_KIND_REAL,
	JSON_KIND_STR,
	JSON_KIND_ARRAY,
	JSON_KIND_OBJECT,
};

/* What is asked of another kind of value answers 0, false or NULL. All is borrowed. */
enum json_kind json_kind(const struct json *j);
bool json_bool(const struct json *j);
int64_t json_int(const struct json *j);
double json_number(const struct json *j); /* an int or a real */

/* NULL also if there is a NUL in it, where a C string would end too early. */
const char *json_str(const struct json *j);

/* A string with all its bytes, always followed by a NUL. */
const char *json_bytes(const struct json *j, size_t *ret_len);

size_t json_len(const struct json *j);                           /* of an array or object */
const struct json *json_at(const struct json *array, size_t i);  /* NULL past the end */
const struct json *json_get(const struct json *o, const char *); /* NULL: no such name */

/*
 * Walks an object in the order of its text: *at is NULL at first, and again at
 * the end, when the answer is false.
 */
bool json_next(const struct json *object, void **at, const char **ret_name,
	       const struct json **ret_value);
