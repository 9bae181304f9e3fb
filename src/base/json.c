#include "base/json.h"

#include "base/buf.h"
#include "base/text.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* struct json is jansson's value under our name: nobody else includes jansson.h. */
static json_t *in(const struct json *j)
{
	return (json_t *)(uintptr_t)j;
}

static struct json *out_of(json_t *j)
{
	return (struct json *)j;
}

/*
 * A value that could not be made or put in its place. There is no memory to
 * note it in the tree, so the thread does, until its next json_text().
 */
static _Thread_local bool broken;

static struct json *made(json_t *j)
{
	if (!j)
		broken = true;
	return out_of(j);
}

struct json *json_new_object(void)
{
	return made(json_object());
}

struct json *json_new_array(void)
{
	return made(json_array());
}

struct json *json_ref(const struct json *j)
{
	return out_of(json_incref(in(j)));
}

void json_free(struct json *j)
{
	json_decref(in(j));
}

void json_freep(struct json **j)
{
	json_free(*j);
}

struct json *json_share(const struct json *j)
{
	return out_of(json_incref(in(j)));
}

void json_set(struct json *object, const char *key, struct json *value)
{
	if (json_object_set_new(in(object), key, in(value)) < 0)
		broken = true;
}

static json_t *string_of(const char *data, size_t len)
{
	_cleanup_(buf_done) struct buf mended = BUF(SIZE_MAX / 8);

	if (text_is_utf8(data, len))
		return json_stringn(data, len);
	if (text_append_utf8(&mended, data, len) < 0)
		return NULL;
	return json_stringn(mended.data, mended.len);
}

void json_set_str(struct json *object, const char *key, const char *value)
{
	json_set(object, key, out_of(value ? string_of(value, strlen(value)) : json_null()));
}

void json_set_bytes(struct json *object, const char *key, const char *data, size_t len)
{
	json_set(object, key, out_of(string_of(data ? data : "", len)));
}

void json_set_int(struct json *object, const char *key, int64_t value)
{
	json_set(object, key, out_of(json_integer(value)));
}

void json_set_real(struct json *object, const char *key, double value)
{
	/* JSON has no word for the others. */
	json_set(object, key, out_of(isfinite(value) ? json_real(value) : json_null()));
}

void json_set_bool(struct json *object, const char *key, bool value)
{
	json_set(object, key, out_of(json_boolean(value)));
}

void json_set_null(struct json *object, const char *key)
{
	json_set(object, key, out_of(json_null()));
}

void json_add(struct json *array, struct json *value)
{
	if (json_array_append_new(in(array), in(value)) < 0)
		broken = true;
}

void json_add_str(struct json *array, const char *value)
{
	json_add(array, out_of(string_of(value, strlen(value))));
}

struct dump {
	struct buf *out;
	int r;
};

static int dump(const char *data, size_t len, void *ctx)
{
	struct dump *d = ctx;

	d->r = buf_append(d->out, data, len);
	return d->r;
}

int json_text(const struct json *j, struct buf *out)
{
	struct dump d = {.out = out};
	bool whole = !broken;

	broken = false;
	if (!j || !whole)
		return -ENOMEM;
	if (json_dump_callback(in(j), dump, &d, JSON_COMPACT | JSON_REAL_PRECISION(15)) < 0)
		return d.r < 0 ? d.r : -ENOMEM;
	return buf_append_str(out, "\n");
}

/* Behind the string that begins at p, or end. */
static const char *skip_string(const char *p, const char *end)
{
	for (p++; p < end && *p != '"'; p++)
		if (*p == '\\' && p + 1 < end)
			p++;
	return p < end ? p + 1 : end;
}

/*
 * jansson builds what it reads as it goes, up to 2048 levels, 50 bytes and more
 * for two bytes of text: what is too deep or too much is found out before. A text
 * that is no JSON may be counted wrong; then it is refused one way or the other.
 */
static const char *too_much(const char *text, size_t len)
{
	const char *end = text + len;
	size_t depth = 0, values = 1;

	for (const char *p = text; p < end;) {
		if (*p == '"') {
			p = skip_string(p, end);
			continue;
		}
		if (*p == '[' || *p == '{')
			depth++;
		else if ((*p == ']' || *p == '}') && depth > 0)
			depth--;
		else if (*p == ',' || *p == ':')
			values++;
		if (depth > JSON_DEPTH_MAX)
			return "nested too deeply";
		if (values > JSON_VALUES_MAX)
			return "too many values";
		p++;
	}
	return NULL;
}

static int fault(struct json_fault *ret, int line, int column, const char *what)
{
	*ret = (struct json_fault){.line = line, .column = column};
	(void)snprintf(ret->what, sizeof(ret->what), "%s", what);
	text_flatten(ret->what, strlen(ret->what));
	return -EINVAL;
}

int json_parse(const char *text, size_t len, size_t max, struct json **ret,
	       struct json_fault *ret_fault)
{
	const char *much;
	json_error_t e = {0};
	json_t *j;

	if (len > max)
		return -EFBIG;
	much = too_much(text, len);
	if (much)
		return fault(ret_fault, 1, 1, much);
	j = json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &e);
	if (!j && (e.text[0] == '\0' || json_error_code(&e) == json_error_out_of_memory))
		return -ENOMEM;
	if (!j)
		return fault(ret_fault, e.line, e.column, e.text);
	*ret = out_of(j);
	return 0;
}

enum json_kind json_kind(const struct json *j)
{
	static const enum json_kind kinds[] = {
		[JSON_OBJECT] = JSON_KIND_OBJECT, [JSON_ARRAY] = JSON_KIND_ARRAY,
		[JSON_STRING] = JSON_KIND_STR,    [JSON_INTEGER] = JSON_KIND_INT,
		[JSON_REAL] = JSON_KIND_REAL,     [JSON_TRUE] = JSON_KIND_BOOL,
		[JSON_FALSE] = JSON_KIND_BOOL,    [JSON_NULL] = JSON_KIND_NULL,
	};

	return j ? kinds[json_typeof(in(j))] : JSON_KIND_NULL;
}

bool json_bool(const struct json *j)
{
	return json_is_true(in(j));
}

int64_t json_int(const struct json *j)
{
	return json_integer_value(in(j));
}

double json_number(const struct json *j)
{
	return json_number_value(in(j));
}

const char *json_bytes(const struct json *j, size_t *ret_len)
{
	*ret_len = json_string_length(in(j));
	return json_string_value(in(j));
}

const char *json_str(const struct json *j)
{
	size_t len;
	const char *s = json_bytes(j, &len);

	return s && strlen(s) == len ? s : NULL;
}

size_t json_len(const struct json *j)
{
	return json_is_array(in(j)) ? json_array_size(in(j)) : json_object_size(in(j));
}

const struct json *json_at(const struct json *array, size_t i)
{
	return out_of(json_array_get(in(array), i));
}

const struct json *json_get(const struct json *o, const char *name)
{
	return out_of(json_object_get(in(o), name));
}

bool json_next(const struct json *object, void **at, const char **ret_name,
	       const struct json **ret_value)
{
	*at = *at ? json_object_iter_next(in(object), *at) : json_object_iter(in(object));
	if (!*at)
		return false;
	*ret_name = json_object_iter_key(*at);
	*ret_value = out_of(json_object_iter_value(*at));
	return true;
}
