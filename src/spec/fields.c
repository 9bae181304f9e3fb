#include "spec/fields.h"

#include "base/attr.h"
#include "base/buf.h"
#include "base/text.h"
#include "base/words.h"
#include "core/limit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int field_no_memory(struct cay_error *err)
{
	return cay_fail(err, CAY_E_INTERNAL, ENOMEM, "read the request");
}

int field_invalid(struct cay_error *err, const char *what)
{
	return cay_fail(err, CAY_E_INVALID, 0, "%s", what);
}

int field_too_many(struct cay_error *err, int max)
{
	return cay_fail(err, CAY_E_TOO_LARGE, 0, "more than %d", max);
}

int field_later(struct cay_error *err, const char *hint)
{
	(void)cay_fail(err, CAY_E_UNSUPPORTED, 0, "not supported yet");
	return cay_hint(err, "%s", hint);
}

static size_t enter(struct reader *r, const char *text)
{
	size_t len = strlen(r->path);

	(void)snprintf(r->path + len, sizeof(r->path) - len, "%s", text);
	return len;
}

size_t reader_enter(struct reader *r, const char *name)
{
	char text[72];

	(void)snprintf(text, sizeof(text), "%s%.64s", r->path[0] ? "." : "", name);
	text_flatten(text, strlen(text)); /* some are the caller's own */
	return enter(r, text);
}

size_t reader_enter_at(struct reader *r, size_t i)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "[%zu]", i);
	return enter(r, text);
}

void reader_leave(struct reader *r, size_t len)
{
	r->path[len] = '\0';
}

int reader_fail(const struct reader *r, struct cay_error *err)
{
	return r->path[0] ? cay_wrap(err, "%s", r->path) : -1;
}

static const char *kind_name(enum json_kind kind)
{
	static const char *const names[] = {
		[JSON_KIND_NULL] = "null",        [JSON_KIND_BOOL] = "true or false",
		[JSON_KIND_INT] = "a number",     [JSON_KIND_REAL] = "a number",
		[JSON_KIND_STR] = "a string",     [JSON_KIND_ARRAY] = "an array",
		[JSON_KIND_OBJECT] = "an object",
	};

	return names[kind];
}

int field_check_kind(const struct json *v, unsigned takes, struct cay_error *err)
{
	enum json_kind kind = json_kind(v);
	const char *first = NULL, *second = NULL;

	if (takes & 1u << kind)
		return 0;
	if (takes == TAKES_INT && kind == JSON_KIND_REAL)
		return field_invalid(err, "expected a whole number");
	for (int k = JSON_KIND_NULL; k <= JSON_KIND_OBJECT; k++)
		if (takes & 1u << k && k != JSON_KIND_REAL)
			*(first ? &second : &first) = kind_name((enum json_kind)k);
	(void)cay_fail(err, CAY_E_INVALID, 0, "expected %s%s%s, not %s", first,
		       second ? " or " : "", second ? second : "", kind_name(kind));
	return kind == JSON_KIND_NULL ? cay_hint(err, "what has no value is left out") : -1;
}

int fields_parse(const char *text, size_t len, size_t max, struct json **ret, struct cay_error *err)
{
	_cleanup_(json_freep) struct json *j = NULL;
	struct json_fault fault;
	int r = json_parse(text, len, max, &j, &fault);

	if (r == -EFBIG)
		return cay_fail(err, CAY_E_TOO_LARGE, 0, "more than %zu bytes of JSON", max);
	if (r == -EINVAL)
		return cay_fail(err, CAY_E_INVALID, 0, "not JSON, line %d column %d: %s",
				fault.line, fault.column, fault.what);
	if (r < 0)
		return field_no_memory(err);
	if (field_check_kind(j, TAKES_OBJECT, err) < 0)
		return -1;
	*ret = take_ptr(&j);
	return 0;
}

static int unknown_name(const struct reader *r, const struct field *fields, size_t n,
			const char *name, struct cay_error *err)
{
	struct guess guess = GUESS(name);

	for (size_t i = 0; i < n; i++)
		if (fields[i].places == 0 || fields[i].places & r->place)
			guess_offer(&guess, fields[i].name);
	(void)field_invalid(err, "no field is called so");
	return guess.meant ? cay_hint(err, "did you mean %s?", guess.meant) : -1;
}

static int check_name(const struct reader *r, const struct field *fields, size_t n,
		      const char *name, struct cay_error *err)
{
	for (size_t i = 0; i < n; i++) {
		if (strcmp(fields[i].name, name) != 0)
			continue;
		if (fields[i].places == 0 || fields[i].places & r->place)
			return 0;
		return cay_fail(err, CAY_E_INVALID, 0, "can't be said of %s", r->place_is);
	}
	return unknown_name(r, fields, n, name, err);
}

int fields_read(struct reader *r, const struct field *fields, size_t n, const struct json *object,
		struct cay_error *err)
{
	const struct json *v;
	const char *name;
	void *at = NULL;

	while (json_next(object, &at, &name, &v)) {
		size_t back = reader_enter(r, name);

		if (check_name(r, fields, n, name, err) < 0)
			return -1;
		reader_leave(r, back);
	}
	return fields_read_known(r, fields, n, object, err);
}

int fields_read_known(struct reader *r, const struct field *fields, size_t n,
		      const struct json *object, struct cay_error *err)
{
	for (size_t i = 0; i < n; i++) {
		const struct json *v = json_get(object, fields[i].name);
		size_t back;

		if (!v)
			continue;
		back = reader_enter(r, fields[i].name);
		if (field_check_kind(v, fields[i].takes, err) < 0 || fields[i].set(r, v, err) < 0)
			return -1;
		reader_leave(r, back);
	}
	return 0;
}

const char *field_str(const struct json *v, struct cay_error *err)
{
	const char *s = json_str(v);

	if (!s && field_check_kind(v, TAKES_STR, err) == 0)
		(void)field_invalid(err, "there is a NUL in it");
	return s;
}

int field_copy(const struct json *v, char **ret, struct cay_error *err)
{
	const char *s = field_str(v, err);

	if (!s)
		return -1;
	free(*ret);
	*ret = strdup(s);
	return *ret ? 0 : field_no_memory(err);
}

int field_bytes(const struct json *v, char **ret, size_t *ret_len, struct cay_error *err)
{
	const char *data = json_bytes(v, ret_len);

	free(*ret);
	*ret = malloc(*ret_len + 1);
	if (!*ret)
		return field_no_memory(err);
	memcpy(*ret, data, *ret_len + 1); /* with the NUL behind it */
	return 0;
}

int field_base64(const struct json *v, size_t max, char **ret, size_t *ret_len,
		 struct cay_error *err)
{
	_cleanup_(buf_done) struct buf bytes = BUF(max);
	size_t len;
	const char *text = json_bytes(v, &len);
	int r = text_decode_base64(&bytes, text, len);

	if (r == -EINVAL) {
		(void)field_invalid(err, "not base64");
		return cay_hint(err, "the standard alphabet, padded, without line breaks");
	}
	free(*ret);
	*ret_len = bytes.len;
	*ret = r < 0 ? NULL : buf_take(&bytes);
	return *ret ? 0 : field_no_memory(err);
}

int field_strings(struct reader *r, const struct json *v, struct strv *ret, struct cay_error *err)
{
	for (size_t i = 0; i < json_len(v); i++) {
		size_t back = reader_enter_at(r, i);
		const char *s = field_str(json_at(v, i), err);
		int added = s ? strv_add(ret, s) : 0;

		if (!s)
			return -1;
		if (added == -E2BIG)
			return cay_fail(err, CAY_E_TOO_LARGE, 0, "more than %d strings", STRV_MAX);
		if (added < 0)
			return field_no_memory(err);
		reader_leave(r, back);
	}
	return 0;
}

const char *field_number(const struct json *v, char *text, size_t size)
{
	if (json_kind(v) == JSON_KIND_STR)
		return json_str(v);
	if (json_kind(v) == JSON_KIND_INT)
		(void)snprintf(text, size, "%lld", (long long)json_int(v));
	else /* fifteen digits: 0.3 is 0.3 again, and not a little less */
		(void)snprintf(text, size, "%.15g", json_number(v));
	return text;
}

static int unknown_limit(const char *name, struct cay_error *err)
{
	struct guess guess = GUESS(name);

	for (size_t i = 0; i < n_limit_rows; i++)
		guess_offer(&guess, limit_rows[i].name);
	(void)field_invalid(err, "no limit is called so");
	return guess.meant ? cay_hint(err, "did you mean %s?", guess.meant) : -1;
}

int field_limit(const struct json *v, const char *name, struct limits *ret, struct cay_error *err)
{
	const struct limit_row *row = limit_find(name);
	char number[40];
	const char *text;

	if (!row)
		return unknown_limit(name, err);
	if (field_check_kind(v, TAKES_STR | TAKES_NUMBER, err) < 0)
		return -1;
	text = field_number(v, number, sizeof(number));
	if (!text)
		return field_invalid(err, "there is a NUL in it");
	if (json_kind(v) == JSON_KIND_REAL && row->unit == LIMIT_BYTES && strchr(text, '.'))
		return field_invalid(err, "expected whole bytes");
	return limit_parse(ret, name, text, err);
}
