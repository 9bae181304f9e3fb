#include "spec/request_files.h"

#include "base/attr.h"
#include "base/buf.h"
#include "base/json.h"
#include "spec/request.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SETTER(name)                                                     \
	static int name(struct reader *r _unused_, const struct json *v, \
			struct cay_error *err _unused_)

static struct request_body *body(const struct reader *r)
{
	return r->into;
}

static struct request_file *last_file(const struct reader *r)
{
	return &body(r)->files[body(r)->n_files - 1];
}

/* A relative one counts from the workspace, as a program there would. */
static char *island_path(const char *path)
{
	char *full = NULL;

	if (path[0] == '/')
		return strdup(path);
	return asprintf(&full, "%s/%s", ISLAND_WORKSPACE, path) < 0 ? NULL : full;
}

int request_read_path(const struct json *v, char **ret, struct cay_error *err)
{
	const char *s = field_str(v, err), *path;

	if (!s)
		return -1;
	path = *ret = island_path(s);
	if (!path)
		return field_no_memory(err);
	if (island_workdir_ok(path) && strcmp(path, "/") != 0 && strcmp(path, "/proc") != 0 &&
	    strcmp(path, ISLAND_WORKSPACE) != 0)
		return 0;
	(void)field_invalid(err, "names no file");
	return cay_hint(err, "a path in the workspace, or an absolute one on the island; "
			     "without '.', '..' and empty parts");
}

SETTER(set_file_path)
{
	return request_read_path(v, &last_file(r)->path, err);
}

SETTER(set_file_data)
{
	return field_base64(v, REQUEST_MAX_BYTES, &last_file(r)->data, &last_file(r)->size, err);
}

SETTER(set_file_text)
{
	if (last_file(r)->data)
		return field_invalid(err, "data is there already");
	return field_bytes(v, &last_file(r)->data, &last_file(r)->size, err);
}

SETTER(set_file_executable)
{
	last_file(r)->executable = json_bool(v);
	return 0;
}

static const struct field file_fields[] = {
	{"path", TAKES_STR, set_file_path, 0},
	{"data", TAKES_STR, set_file_data, 0},
	{"text", TAKES_STR, set_file_text, 0},
	{"executable", TAKES_BOOL, set_file_executable, 0},
};

static int read_file(struct reader *r, const struct json *v, struct cay_error *err)
{
	const struct request_body *q = body(r);
	const struct request_file *f;

	body(r)->n_files++; /* request_body_done() frees it from here on */
	f = last_file(r);
	if (field_check_kind(v, TAKES_OBJECT, err) < 0 ||
	    fields_read(r, file_fields, ARRAY_LEN(file_fields), v, err) < 0)
		return -1;
	if (!f->path || !f->data)
		return field_invalid(err, f->path ? "data or text is missing" : "path is missing");
	for (size_t i = 0; i + 1 < q->n_files; i++)
		if (strcmp(q->files[i].path, f->path) == 0)
			return cay_fail(err, CAY_E_INVALID, 0, "has the path of files[%zu]", i);
	return 0;
}

int request_set_files(struct reader *r, const struct json *v, struct cay_error *err)
{
	size_t n = json_len(v);

	if (n > REQUEST_FILES_MAX)
		return field_too_many(err, REQUEST_FILES_MAX);
	body(r)->files = calloc(size_max(n, 1), sizeof(*body(r)->files));
	if (!body(r)->files)
		return field_no_memory(err);
	for (size_t i = 0; i < n; i++) {
		size_t back = reader_enter_at(r, i);

		if (read_file(r, json_at(v, i), err) < 0)
			return -1;
		reader_leave(r, back);
	}
	return 0;
}

static int add_get(struct transfers *t, const char *glob, struct cay_error *err)
{
	_cleanup_(buf_done) struct buf full = BUF(SIZE_MAX);

	if (buf_printf(&full, "%s/%s", ISLAND_WORKSPACE, glob) < 0)
		return field_no_memory(err);
	if (glob[0] == '/' || !island_path_ok(buf_str(&full))) {
		(void)field_invalid(err, "names no files");
		return cay_hint(err, "a path or glob in the workspace, as out/*.png; without '.', "
				     "'..' and empty parts");
	}
	t->items[t->len].from = strdup(glob);
	return t->items[t->len++].from ? 0 : field_no_memory(err);
}

int request_set_get(struct reader *r, const struct json *v, struct cay_error *err)
{
	if (json_len(v) > SPEC_TRANSFERS_MAX)
		return field_too_many(err, SPEC_TRANSFERS_MAX);
	for (size_t i = 0; i < json_len(v); i++) {
		size_t back = reader_enter_at(r, i);
		const char *s = field_str(json_at(v, i), err);

		if (!s || add_get(&body(r)->spec.get, s, err) < 0)
			return -1;
		reader_leave(r, back);
	}
	return 0;
}

/* Host directories */

static struct mount_spec *last_mount(const struct reader *r)
{
	return &body(r)->spec.mounts[body(r)->spec.n_mounts - 1];
}

static int read_source(struct mount_spec *m, const struct json *v, struct cay_error *err)
{
	if (field_copy(v, &m->source, err) < 0)
		return -1;
	return m->source[0] == '/' ? 0
				   : field_invalid(err, "expected an absolute path on the host");
}

static int read_access(struct mount_spec *m, enum access max, const struct json *v,
		       struct cay_error *err)
{
	const char *s = field_str(v, err);

	if (!s)
		return -1;
	for (int a = ACCESS_READ; a <= (int)max; a++)
		if (strcmp(s, access_name((enum access)a)) == 0) {
			m->access = (enum access)a;
			return 0;
		}
	return field_invalid(err, max == ACCESS_OVERLAY ? "expected ro, rw or overlay"
							: "expected ro or rw");
}

SETTER(set_mount_source)
{
	return read_source(last_mount(r), v, err);
}

SETTER(set_mount_target)
{
	struct mount_spec *m = last_mount(r);

	if (field_copy(v, &m->target, err) < 0)
		return -1;
	return island_path_ok(m->target)
		       ? 0
		       : field_invalid(err,
				       "expected an absolute path on the island, without '..'");
}

SETTER(set_mount_access)
{
	return read_access(last_mount(r), ACCESS_WRITE, v, err);
}

static const struct field mount_fields[] = {
	{"source", TAKES_STR, set_mount_source, 0},
	{"target", TAKES_STR, set_mount_target, 0},
	{"access", TAKES_STR, set_mount_access, 0},
};

static int read_mount(struct reader *r, const struct json *v, struct cay_error *err)
{
	const struct mount_spec *m;

	body(r)->spec.n_mounts++;
	m = last_mount(r);
	if (field_check_kind(v, TAKES_OBJECT, err) < 0 ||
	    fields_read(r, mount_fields, ARRAY_LEN(mount_fields), v, err) < 0)
		return -1;
	if (!m->source || !m->target)
		return field_invalid(err, m->source ? "target is missing" : "source is missing");
	return 0;
}

int request_set_mounts(struct reader *r, const struct json *v, struct cay_error *err)
{
	if (json_len(v) > SPEC_MOUNTS_MAX)
		return field_too_many(err, SPEC_MOUNTS_MAX);
	for (size_t i = 0; i < json_len(v); i++) {
		size_t back = reader_enter_at(r, i);

		if (read_mount(r, json_at(v, i), err) < 0)
			return -1;
		reader_leave(r, back);
	}
	return 0;
}

SETTER(set_workspace_source)
{
	return read_source(&body(r)->spec.workspace, v, err);
}

SETTER(set_workspace_target)
{
	const char *s = field_str(v, err);

	if (!s)
		return -1;
	return strcmp(s, ISLAND_WORKSPACE) == 0
		       ? 0
		       : field_later(err,
				     "the workspace is at " ISLAND_WORKSPACE ": leave target out");
}

SETTER(set_workspace_access)
{
	return read_access(&body(r)->spec.workspace, ACCESS_OVERLAY, v, err);
}

SETTER(set_workspace_name)
{
	if (field_copy(v, &body(r)->workspace, err) < 0)
		return -1;
	return body(r)->workspace[0] ? 0 : field_invalid(err, "expected a name");
}

static const struct field workspace_fields[] = {
	{"source", TAKES_STR, set_workspace_source, 0},
	{"name", TAKES_STR, set_workspace_name, 0},
	{"target", TAKES_STR, set_workspace_target, 0},
	{"access", TAKES_STR, set_workspace_access, 0},
};

/* It is there to be written to, by one sandbox at a time. */
static int named_workspace_ok(const struct reader *r, const struct json *v, struct cay_error *err)
{
	const char *access = json_str(json_get(v, "access"));

	if (r->place != REQUEST_SANDBOX)
		return field_invalid(err, "a workspace with a name is a sandbox's");
	if (json_get(v, "source") || (access && strcmp(access, "rw") != 0))
		return field_invalid(err, "one with a name has no source, and is rw");
	return 0;
}

int request_set_workspace(struct reader *r, const struct json *v, struct cay_error *err)
{
	struct mount_spec *w = &body(r)->spec.workspace;

	if (fields_read(r, workspace_fields, ARRAY_LEN(workspace_fields), v, err) < 0)
		return -1;
	if (body(r)->workspace)
		return named_workspace_ok(r, v, err);
	if (!w->source)
		return field_invalid(err, "source is missing");
	w->target = strdup(ISLAND_WORKSPACE);
	return w->target ? 0 : field_no_memory(err);
}
