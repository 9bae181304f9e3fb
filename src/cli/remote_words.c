/* What a daemon says of a failure, and how its paths are written. Pure. */
#include "cli/remote_impl.h"

#include "base/attr.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/text.h"

#include <string.h>

#define PATH_BYTES_MAX ((size_t)16 << 10)

static enum cay_code code_of(int status, const char *name)
{
	for (int c = CAY_E_INVALID; c < CAY_CODES; c++)
		if (name && strcmp(cay_code_name((enum cay_code)c), name) == 0)
			return (enum cay_code)c;
	for (int c = CAY_E_INVALID; c < CAY_CODES; c++)
		if (cay_code_http((enum cay_code)c) == status)
			return (enum cay_code)c;
	return CAY_E_INTERNAL;
}

int remote_refusal_json(int status, const struct json *j, struct cay_error *err)
{
	const struct json *e = json_get(j, "error");
	const char *message = json_str(json_get(e, "message"));
	const char *hint = json_str(json_get(e, "hint"));
	int64_t exit_code = json_int(json_get(json_get(e, "details"), "exit_code"));

	(void)cay_fail(err, code_of(status, json_str(json_get(e, "code"))), 0, "%s",
		       message ? message : "the daemon refused, and did not say why");
	if (hint && hint[0])
		(void)cay_hint(err, "%s", hint);
	if (exit_code == 126 || exit_code == 127)
		err->exit_code = (int)exit_code;
	return -1;
}

int remote_refusal(int status, const char *body, size_t len, struct cay_error *err)
{
	_cleanup_(json_freep) struct json *j = NULL;
	struct json_fault fault;

	if (json_parse(body, len, REFUSAL_MAX, &j, &fault) == 0 && json_get(j, "error"))
		return remote_refusal_json(status, j, err);
	return cay_fail(err, code_of(status, NULL), 0, "the daemon answered %d %s", status,
			http_status_text(status));
}

int remote_sandbox_path(struct buf *path, const char *id, const char *rest, struct cay_error *err)
{
	int r;

	if (!id[0] || strcmp(id, ".") == 0 || strcmp(id, "..") == 0)
		return cay_fail(err, CAY_E_INVALID, 0, "'%s' can't be a sandbox", id);
	*path = BUF(PATH_BYTES_MAX);
	r = buf_append_str(path, "/v1/sandboxes/");
	if (r == 0)
		r = text_append_encoded(path, id);
	if (r == 0)
		r = buf_append_str(path, rest);
	if (r < 0)
		return cay_fail(err, CAY_E_TOO_LARGE, -r, "the sandbox's name");
	return 0;
}
