/*
 * request_scope.h: the field scope of requests (request.h), and what a run in one says of the
 * sandbox that it may be the first to need.
 */
#pragma once

#include "core/error.h"
#include "spec/fields.h"

struct request_body;

field_set_fn request_set_scope;

/* Sets q->place. j is the whole request, which was read. */
int request_keep_place(struct request_body *q, const struct json *j, struct cay_error *err);
