/*
 * run_remote_files.h: --put and --get of a run by a daemon: files go in the request, and
 * come in the result.
 */
#pragma once

#include "cli/run_files.h"

#include <stdbool.h>

struct json;

/* The glob as the API has it, without /workspace in front; NULL: it can't be said there. */
const char *run_remote_glob(const char *glob);

/* All of --put into the request's "files". */
int run_remote_put(const struct run_files *f, struct json *request, struct cay_error *err);

/* What the result brings, to where each --get says. Names in there are only names. */
int run_remote_get(struct run_files *f, const struct json *result, struct cay_error *err);
