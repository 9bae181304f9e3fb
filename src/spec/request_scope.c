#include "spec/request_scope.h"

#include "base/attr.h"
#include "base/buf.h"
#include "core/scope.h"
#include "spec/request.h"

#include <errno.h>
#include <string.h>

int request_set_scope(struct reader *r, const struct json *v, struct cay_error *err)
{
	struct request_body *q = r->into;
	enum scope_kind unused;

	if (field_copy(v, &q->scope, err) < 0)
		return -1;
	return scope_parse(q->scope, &unused, err);
}

/* Those that say where a run is, and not only how it is decided. */
static const char *const places[] = {"mounts", "workspace", "engine", "image",         "writable",
				     "user",   "network",   "tier",   "allow_degraded"};

/* Time and output are a command's own. */
static struct json *limits_of_place(const struct json *limits)
{
	struct json *o = json_new_object();
	const struct json *value;
	const char *name;
	void *at = NULL;

	while (json_next(limits, &at, &name, &value))
		if (strcmp(name, "timeout") != 0 && strcmp(name, "output") != 0)
			json_set(o, name, json_share(value));
	return o;
}

int request_keep_place(struct request_body *q, const struct json *j, struct cay_error *err)
{
	_cleanup_(buf_done) struct buf text = BUF(REQUEST_KEPT_MAX);
	_cleanup_(json_freep) struct json *o = json_new_object();
	int r;

	for (size_t i = 0; i < ARRAY_LEN(places); i++) {
		const struct json *value = json_get(j, places[i]);

		if (value)
			json_set(o, places[i], json_share(value));
	}
	if (json_get(j, "limits"))
		json_set(o, "limits", limits_of_place(json_get(j, "limits")));
	r = json_text(o, &text);
	if (r == -EFBIG)
		return cay_fail(err, CAY_E_TOO_LARGE, 0, "the request says too much of its scope");
	q->place = r == 0 ? strdup(buf_str(&text)) : NULL;
	return q->place ? 0 : cay_fail(err, CAY_E_INTERNAL, ENOMEM, "read the request");
}
