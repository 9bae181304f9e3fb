/*
 * error.h: what went wrong on our side, as a plain value: nothing to free, and
 * small enough for a child to send it in one atomic pipe write.
 *
 * Functions outside base/ return 0 or -1 and fill the caller's struct cay_error.
 */
#pragma once

#include "base/attr.h"

enum cay_code {
	CAY_OK,
	CAY_E_INVALID,
	CAY_E_UNAUTHORIZED,
	CAY_E_POLICY,
	CAY_E_NOT_FOUND,
	CAY_E_IMAGE,
	CAY_E_RUNTIME,
	CAY_E_CONFLICT,
	CAY_E_EXPIRED,
	CAY_E_TOO_LARGE,
	CAY_E_UNSUPPORTED,
	CAY_E_NOT_ENFORCEABLE,
	CAY_E_RATE_LIMITED,
	CAY_E_AT_CAPACITY,
	CAY_E_ENGINE,
	CAY_E_INTERNAL,
	CAY_CODES
};

struct cay_error {
	enum cay_code code;
	int sys_errno;
	int exit_code; /* of a command that ends with this: 125, or 126 and 127 as in a shell */
	char text[512];
	char hint[512]; /* what to do about it; may be empty */
};

_Static_assert(sizeof(struct cay_error) <= 4096, "must fit an atomic pipe write");

/* Fills err and returns -1. "…: strerror(sys_errno)" is added when sys_errno is not 0. */
int cay_fail(struct cay_error *err, enum cay_code code, int sys_errno, const char *fmt, ...)
	_printf_(4, 5);

/* Puts "context: " in front of the text; the code stays. Returns -1. */
int cay_wrap(struct cay_error *err, const char *fmt, ...) _printf_(2, 3);

/* Adds what to do about it. Returns -1. */
int cay_hint(struct cay_error *err, const char *fmt, ...) _printf_(2, 3);

/* Analysers look at one file at a time: here they are told that nothing goes on after a failure. */
#ifdef CAY_ANALYZE
#define cay_fail(...) (cay_fail(__VA_ARGS__), -1)
#define cay_wrap(...) (cay_wrap(__VA_ARGS__), -1)
#define cay_hint(...) (cay_hint(__VA_ARGS__), -1)
#endif

/* Makes an error whose bytes came from another process one that can be looked at. */
void cay_error_mend(struct cay_error *err);

/* "invalid_request" and so on, and the HTTP status that goes with it. */
const char *cay_code_name(enum cay_code code);
int cay_code_http(enum cay_code code);

struct json;

/* {"error":{…}}; the caller frees it. */
struct json *cay_error_json(const struct cay_error *err, const char *request_id);
