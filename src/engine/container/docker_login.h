/*
 * docker_login.h: the name and password that `docker login` or `podman login` keeps for an image's
 * registry, as engines want to be told: they have none of their own.
 */
#pragma once

#include "base/buf.h"
#include "core/error.h"

/* name: a reference in full. Appends the value of X-Registry-Auth; nothing where none is kept. */
int docker_login(const char *name, struct buf *out, struct cay_error *err);
