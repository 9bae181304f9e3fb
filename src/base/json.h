/*
 * json.h: the shim over jansson. A value is a struct json *; the setters take
 * the value they are given over, also when they fail. Strings that are not
 * UTF-8 are mended (U+FFFD) on the way in, and reals that are not finite become
 * null. Out of memory while building is noticed once, by the thread's next
 * json_text(): build one text at a time.
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

void json_set(struct json *object, const char *key, struct json *value);
void json_set_str(struct json *object, const char *key, const char *value); /* NULL: null */
void json_set_bytes(struct json *object, const char *key, const char *data, size_t len);
void json_set_int(struct json *object, const char *key, int64_t value);
void json_set_real(struct json *object, const char *key, double value);
void json_set_bool(struct json *object, const char *key, bool value);
void json_set_null(struct json *object, const char *key);

void json_add(struct json *array, struct json *value);
void json_add_str(struct json *array, const char *value);

/*
 * Appends the text, one line with a newline, keys in the order they were set.
 * 0, -EFBIG past the buffer's maximum, or -ENOMEM when memory ran out, now or
 * while building. On failure a part may have been appended.
 */
int json_text(const struct json *j, struct buf *out);
