/*
 * confine.h: cay-api confines itself once it has what it needs, so that a hole in it is
 * worth little: with Landlock it reads what runtimes are found in and /proc/self, writes
 * to its state directory and connects to nothing; a seccomp filter takes away what an
 * HTTP server never does (programs, processes, namespaces, mounts, keys, other sockets).
 * It is no user's process that could be looked into, either.
 */
#pragma once

#include "core/error.h"
#include "settings/settings.h"

/*
 * Before the first request. state: an fd of its directory. *ret_landlock: its version;
 * 0 where the kernel has none, which is worth a warning and no failure.
 */
int confine_api(const struct settings *s, int state, int *ret_landlock, struct cay_error *err);
