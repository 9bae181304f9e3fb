/*
 * remote_request.h: a spec as the JSON that the API takes.
 */
#pragma once

#include "core/error.h"
#include "spec/request.h"

#include <stddef.h>

struct json;

/* Of a program's input and of all files together: what goes into one request. */
#define REMOTE_STDIN_MAX (16u << 20)
#define REMOTE_FILES_MAX (48u << 20)

/*
 * A file of it is the island's. Without files and input, which follow. Sources of mounts
 * become absolute, from the current directory. CAY_E_UNSUPPORTED for what the API can't be
 * told: bytes that are not UTF-8. *ret is the caller's.
 */
int remote_request(const struct spec *s, enum request_place place, struct json **ret,
		   struct cay_error *err);

/* "stdin", or "stdin_base64" where it is not text. */
int remote_request_stdin(struct json *request, const char *data, size_t len, struct cay_error *err);

/* One of "files", of a list that goes there. */
int remote_request_file(struct json *files, const char *path, const char *data, size_t len,
			bool executable, struct cay_error *err);

/* A string of the request; what: of the error. */
int remote_request_str(struct json *to, const char *key, const char *value, const char *what,
		       struct cay_error *err);
