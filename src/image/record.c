#include "image/record.h"

#include "base/attr.h"
#include "base/json.h"
#include "spec/fields.h"
#include "spec/spec.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kind {
	TEXT,   /* a char *, null where it is NULL */
	PATH,   /* the same, absolute */
	ID,     /* char[IMAGE_ID_SIZE] */
	NO_ID,  /* the same, or "" */
	LIST,   /* a struct strv */
	IDS,    /* the same, of digests */
	USER,   /* a uint32_t */
	NUMBER, /* a uint64_t */
	YES_NO, /* a bool */
};

#define ROW(name, kind)                                   \
	{                                                 \
#name, kind, offsetof(struct image, name) \
	}

static const struct record_row {
	const char *name;
	enum kind kind;
	size_t offset;
} rows[] = {
	ROW(id, ID),         ROW(manifest, NO_ID),    ROW(names, LIST),
	ROW(layers, IDS),    ROW(env, LIST),          ROW(entrypoint, LIST),
	ROW(cmd, LIST),      ROW(workdir, PATH),      ROW(user, TEXT),
	ROW(home, PATH),     ROW(uid, USER),          ROW(gid, USER),
	ROW(os, TEXT),       ROW(architecture, TEXT), ROW(created, TEXT),
	ROW(one_id, YES_NO), ROW(size_bytes, NUMBER), ROW(root_bytes, NUMBER),
};

static const unsigned takes[] = {
	/* null is no kind that a field takes: what is not there is left out. */
	[TEXT] = TAKES_STR,  [PATH] = TAKES_STR,   [ID] = TAKES_STR,
	[NO_ID] = TAKES_STR, [LIST] = TAKES_ARRAY, [IDS] = TAKES_ARRAY,
	[USER] = TAKES_INT,  [NUMBER] = TAKES_INT, [YES_NO] = TAKES_BOOL,
};

bool image_id_ok(const char *text)
{
	return strspn(text, "0123456789abcdef") == IMAGE_ID_SIZE - 1 &&
	       text[IMAGE_ID_SIZE - 1] == '\0';
}

/* Writing */

static struct json *list_json(const struct strv *list)
{
	struct json *j = json_new_array();

	for (size_t i = 0; i < list->len; i++)
		json_add_str(j, list->items[i]);
	return j;
}

static void write_row(const struct image *image, const struct record_row *row, struct json *j)
{
	const void *field = (const char *)image + row->offset;

	switch (row->kind) {
	case TEXT:
	case PATH:
		if (*(char *const *)field)
			json_set_str(j, row->name, *(char *const *)field);
		break;
	case ID:
	case NO_ID:
		json_set_str(j, row->name, field);
		break;
	case LIST:
	case IDS:
		json_set(j, row->name, list_json(field));
		break;
	case USER:
		json_set_int(j, row->name, *(const uint32_t *)field);
		break;
	case NUMBER:
		json_set_int(j, row->name, (int64_t) * (const uint64_t *)field);
		break;
	case YES_NO:
		json_set_bool(j, row->name, *(const bool *)field);
		break;
	}
}

static struct json *runtime_json(const struct image_runtime *rt)
{
	struct json *j = json_new_object();

	json_set_str(j, "language", rt->language);
	json_set_str(j, "version", rt->version);
	json_set_str(j, "program", rt->program);
	if (rt->tool)
		json_set_str(j, "tool", rt->tool);
	return j;
}

int record_json(const struct image *image, struct json **ret)
{
	struct json *j = json_new_object(), *runtimes = json_new_array();

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		write_row(image, &rows[i], j);
	for (size_t i = 0; i < image->n_runtimes; i++)
		json_add(runtimes, runtime_json(&image->runtimes[i]));
	json_set(j, "runtimes", runtimes);
	if (!j)
		return -ENOMEM;
	*ret = j;
	return 0;
}

/* Reading */

static int read_path(const struct json *v, char **ret, struct cay_error *err)
{
	if (field_copy(v, ret, err) < 0)
		return -1;
	return island_path_ok(*ret) ? 0 : field_invalid(err, "no absolute path");
}

static int read_id(const struct json *v, char *ret, bool may_lack, struct cay_error *err)
{
	const char *s = field_str(v, err);

	if (!s)
		return -1;
	if (!image_id_ok(s) && !(may_lack && !*s))
		return field_invalid(err, "no SHA-256");
	(void)snprintf(ret, IMAGE_ID_SIZE, "%s", s);
	return 0;
}

static int read_ids(struct reader *r, const struct json *v, struct strv *ret, struct cay_error *err)
{
	if (field_strings(r, v, ret, err) < 0)
		return -1;
	for (size_t i = 0; i < ret->len; i++)
		if (!image_id_ok(ret->items[i]))
			return field_invalid(err, "no list of SHA-256");
	return 0;
}

static int read_user(const struct json *v, uint32_t *ret, struct cay_error *err)
{
	int64_t n = json_int(v);

	if (n < 0 || n > IMAGE_ID_MAX)
		return field_invalid(err, "no id that an image can have");
	*ret = (uint32_t)n;
	return 0;
}

static int read_number(const struct json *v, uint64_t *ret, struct cay_error *err)
{
	if (json_int(v) < 0)
		return field_invalid(err, "below 0");
	*ret = (uint64_t)json_int(v);
	return 0;
}

static int read_row(struct reader *r, const struct record_row *row, const struct json *v,
		    struct cay_error *err)
{
	void *field = (char *)r->into + row->offset;

	if (field_check_kind(v, takes[row->kind], err) < 0)
		return -1;
	switch (row->kind) {
	case TEXT:
		return field_copy(v, field, err);
	case PATH:
		return read_path(v, field, err);
	case ID:
	case NO_ID:
		return read_id(v, field, row->kind == NO_ID, err);
	case LIST:
		return field_strings(r, v, field, err);
	case IDS:
		return read_ids(r, v, field, err);
	case USER:
		return read_user(v, field, err);
	case NUMBER:
		return read_number(v, field, err);
	case YES_NO:
		*(bool *)field = json_bool(v);
		return 0;
	}
	return -1;
}

#define SETTER(name) static int name(struct reader *r, const struct json *v, struct cay_error *err)

static struct image_runtime *runtime_at_hand(const struct reader *r)
{
	const struct image *image = r->into;

	return &image->runtimes[image->n_runtimes - 1];
}

static int read_word(const struct json *v, char *ret, size_t size, struct cay_error *err)
{
	const char *s = field_str(v, err);

	if (!s)
		return -1;
	if (strlen(s) >= size)
		return field_invalid(err, "too long");
	(void)snprintf(ret, size, "%s", s);
	return 0;
}

SETTER(set_language)
{
	struct image_runtime *rt = runtime_at_hand(r);

	return read_word(v, rt->language, sizeof(rt->language), err);
}

SETTER(set_version)
{
	struct image_runtime *rt = runtime_at_hand(r);

	if (read_word(v, rt->version, sizeof(rt->version), err) < 0)
		return -1;
	return !rt->version[0] || version_valid(rt->version) ? 0 : field_invalid(err, "no version");
}

SETTER(set_program)
{
	return read_path(v, &runtime_at_hand(r)->program, err);
}

SETTER(set_tool)
{
	return read_path(v, &runtime_at_hand(r)->tool, err);
}

static const struct field runtime_fields[] = {
	{"language", TAKES_STR, set_language, 0},
	{"version", TAKES_STR, set_version, 0},
	{"program", TAKES_STR, set_program, 0},
	{"tool", TAKES_STR, set_tool, 0},
};

static int read_runtimes(struct reader *r, const struct json *v, struct cay_error *err)
{
	struct image *image = r->into;

	if (field_check_kind(v, TAKES_ARRAY, err) < 0)
		return -1;
	if (json_len(v) > IMAGE_RUNTIMES_MAX)
		return field_too_many(err, IMAGE_RUNTIMES_MAX);
	image->runtimes = calloc(json_len(v) + 1, sizeof(*image->runtimes));
	if (!image->runtimes)
		return field_no_memory(err);
	for (size_t i = 0; i < json_len(v); i++) {
		size_t back = reader_enter_at(r, i);

		image->n_runtimes++; /* image_done() frees it from here on */
		if (field_check_kind(json_at(v, i), TAKES_OBJECT, err) < 0 ||
		    fields_read_known(r, runtime_fields, ARRAY_LEN(runtime_fields), json_at(v, i),
				      err) < 0)
			return -1;
		if (!runtime_at_hand(r)->language[0] || !runtime_at_hand(r)->program)
			return field_invalid(err, "lacks a language or program");
		reader_leave(r, back);
	}
	return 0;
}

static int read_member(struct reader *r, const char *name, const struct json *v,
		       struct cay_error *err)
{
	if (strcmp(name, "runtimes") == 0)
		return read_runtimes(r, v, err);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (strcmp(name, rows[i].name) == 0)
			return read_row(r, &rows[i], v, err);
	return 0; /* of another cay that shares the store */
}

static int read_all(struct reader *r, const struct json *j, struct cay_error *err)
{
	const struct json *value;
	const char *name;
	void *at = NULL;

	while (json_next(j, &at, &name, &value)) {
		size_t back = reader_enter(r, name);

		if (read_member(r, name, value, err) < 0)
			return reader_fail(r, err);
		reader_leave(r, back);
	}
	if (((const struct image *)r->into)->id[0])
		return 0;
	return cay_fail(err, CAY_E_INTERNAL, 0, "lacks its id");
}

int record_parse(const char *text, size_t len, struct image *ret, struct cay_error *err)
{
	_cleanup_(json_freep) struct json *j = NULL;
	struct reader r = {.into = ret};

	*ret = (struct image){0};
	if (fields_parse(text, len, RECORD_MAX_BYTES, &j, err) == 0 && read_all(&r, j, err) == 0)
		return 0;
	/* Ours to have written well: no fault of who asks for the image. */
	err->code = CAY_E_INTERNAL;
	return cay_wrap(err, "an image's record");
}

void image_done(struct image *image)
{
	strv_done(&image->names);
	strv_done(&image->layers);
	strv_done(&image->env);
	strv_done(&image->entrypoint);
	strv_done(&image->cmd);
	free(image->workdir);
	free(image->user);
	free(image->home);
	free(image->os);
	free(image->architecture);
	free(image->created);
	for (size_t i = 0; i < image->n_runtimes; i++) {
		free(image->runtimes[i].program);
		free(image->runtimes[i].tool);
	}
	free(image->runtimes);
	*image = (struct image){0};
}

void image_free(struct image *image)
{
	if (image)
		image_done(image);
	free(image);
}

void image_freep(struct image **image)
{
	image_free(*image);
}
