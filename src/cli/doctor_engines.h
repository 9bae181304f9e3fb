/*
 * doctor_engines.h: what `cay doctor` says of Docker and Podman, which nothing needs that is not
 * asked for by name.
 */
#pragma once

#include "core/error.h"

struct json;

/* Settings that can't be read are told of as every engine's reason. */
void doctor_engines_print(void);
struct json *doctor_engines_json(void);
