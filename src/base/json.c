#include "base/json.h"

#include "base/buf.h"
#include "base/text.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdint.h>

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

void json_free(struct json *j)
{
	json_decref(in(j));
}

void json_freep(struct json **j)
{
	json_free(*j);
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
	if (json_dump_callback(in(j), dump, &d, JSON_COMPACT | JSON_REAL_PRECISION(10)) < 0)
		return d.r < 0 ? d.r : -ENOMEM;
	return buf_append_str(out, "\n");
}
