/*
 * mount_names.h: a host directory judged by all its names: those that bind mounts give it, too.
 */
#pragma once

#include "core/error.h"
#include "policy/mounts.h"

#include <stdbool.h>
#include <stddef.h>

/*
 * fd is the directory, path what the kernel calls it. Every mount below it is judged as well, which
 * comes along; for an overlay there may be none. CAY_E_POLICY.
 */
int mount_check_names(const struct mount_rules *rules, int fd, const char *path, bool overlay,
		      struct cay_error *err);

/* dir + rest, where "/" joins without doubling its slash. False: it is too long. */
bool mount_name_join(char *out, size_t size, const char *dir, const char *rest);
