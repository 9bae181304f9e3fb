#include "core/error.h"

#include "base/json.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct {
	const char *name;
	int http;
} codes[CAY_CODES] = {
	[CAY_OK] = {"ok", 200},
	[CAY_E_INVALID] = {"invalid_request", 400},
	[CAY_E_UNAUTHORIZED] = {"unauthorized", 401},
	[CAY_E_POLICY] = {"policy_denied", 403},
	[CAY_E_NOT_FOUND] = {"not_found", 404},
	[CAY_E_IMAGE] = {"image_not_found", 404},
	[CAY_E_RUNTIME] = {"runtime_not_found", 404},
	[CAY_E_CONFLICT] = {"conflict", 409},
	[CAY_E_EXPIRED] = {"expired", 410},
	[CAY_E_TOO_LARGE] = {"too_large", 413},
	[CAY_E_UNSUPPORTED] = {"unsupported", 422},
	[CAY_E_NOT_ENFORCEABLE] = {"not_enforceable", 422},
	[CAY_E_RATE_LIMITED] = {"rate_limited", 429},
	[CAY_E_AT_CAPACITY] = {"at_capacity", 503},
	[CAY_E_ENGINE] = {"engine_unavailable", 503},
	[CAY_E_INTERNAL] = {"internal", 500},
};

const char *cay_code_name(enum cay_code code)
{
	return codes[code].name;
}

int cay_code_http(enum cay_code code)
{
	return codes[code].http;
}

int(cay_fail)(struct cay_error *err, enum cay_code code, int sys_errno, const char *fmt, ...)
{
	va_list ap;
	int n;

	err->code = code;
	err->sys_errno = sys_errno;
	err->exit_code = 125;
	err->hint[0] = '\0';
	va_start(ap, fmt);
	n = vsnprintf(err->text, sizeof(err->text), fmt, ap);
	va_end(ap);
	if (n < 0)
		err->text[0] = '\0';
	if (sys_errno != 0 && n >= 0 && (size_t)n < sizeof(err->text))
		(void)snprintf(err->text + n, sizeof(err->text) - (size_t)n, ": %s",
			       strerror(sys_errno));
	return -1;
}

int(cay_wrap)(struct cay_error *err, const char *fmt, ...)
{
	char inner[sizeof(err->text)];
	va_list ap;
	int n;

	memcpy(inner, err->text, sizeof(inner));
	va_start(ap, fmt);
	n = vsnprintf(err->text, sizeof(err->text), fmt, ap);
	va_end(ap);
	/* A text that does not fit loses its end, never its beginning. */
	if (n >= 0 && (size_t)n + 2 < sizeof(inner)) {
		size_t room = sizeof(inner) - (size_t)n - 3;

		(void)snprintf(err->text + n, sizeof(inner) - (size_t)n, ": %.*s", (int)room,
			       inner);
	}
	return -1;
}

int(cay_hint)(struct cay_error *err, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(err->hint, sizeof(err->hint), fmt, ap);
	va_end(ap);
	return -1;
}

void cay_error_mend(struct cay_error *err)
{
	if (err->code <= CAY_OK || err->code >= CAY_CODES)
		err->code = CAY_E_INTERNAL;
	if (err->exit_code < 125 || err->exit_code > 127)
		err->exit_code = 125;
	err->text[sizeof(err->text) - 1] = '\0';
	err->hint[sizeof(err->hint) - 1] = '\0';
}

struct json *cay_error_json(const struct cay_error *err, const char *request_id)
{
	struct json *outer = json_new_object(), *e = json_new_object(),
		    *details = json_new_object();

	/* What a client can't tell by the code: that it was the program which was not there. */
	if (err->exit_code == 126 || err->exit_code == 127)
		json_set_int(details, "exit_code", err->exit_code);
	json_set_str(e, "code", cay_code_name(err->code));
	json_set_str(e, "message", err->text);
	json_set_str(e, "hint", err->hint);
	json_set(e, "details", details);
	json_set_str(e, "request_id", request_id);
	json_set(outer, "error", e);
	return outer;
}
