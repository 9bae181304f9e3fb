/*
 * request_files.h: the fields of a request that are about files and directories;
 * the table in request.c has their rows.
 */
#pragma once

#include "spec/fields.h"

/* A path on the island; a relative one counts from the workspace. *ret is the caller's. */
int request_read_path(const struct json *v, char **ret, struct cay_error *err);

field_set_fn request_set_files, request_set_get, request_set_mounts, request_set_workspace;
