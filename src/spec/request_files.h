/*
 * request_files.h: the fields of a request that are about files and directories;
 * the table in request.c has their rows.
 */
#pragma once

#include "spec/fields.h"

field_set_fn request_set_files, request_set_get, request_set_mounts, request_set_workspace;
