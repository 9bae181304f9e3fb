/*
 * mounts.h: which host paths may appear on an island. Pure: it judges paths
 * that somebody else opened and read back from the fd. The api asks it early
 * to answer nicely, the launcher asks it again about what it really opened.
 */
#pragma once

#include "base/strv.h"
#include "core/error.h"
#include "settings/settings.h"
#include "spec/spec.h"

struct mount_rules {
	struct strv read, write, forbid; /* absolute, '~' replaced, no trailing slash */
	struct strv operators;           /* runtimes' directories that settings name */
};

void mount_rules_done(struct mount_rules *r);

/*
 * homes: every home directory of the machine. own_dir: a directory the caller
 * may read because it stands in it (one-shot runs), or NULL.
 */
int mount_rules_make(const struct settings *s, const struct strv *homes, const char *own_dir,
		     struct mount_rules *ret, struct cay_error *err);

/* Is the path, or anything below or above it, forbidden? 0, or CAY_E_POLICY. */
int mount_check_forbidden(const struct mount_rules *r, const char *path, struct cay_error *err);

/* Forbidden, and then allowed for that access by a list? 0, or CAY_E_POLICY. */
int mount_check(const struct mount_rules *r, const char *path, enum access access,
		struct cay_error *err);

/* Whether path is dir or lies below it. */
bool path_is_within(const char *path, const char *dir);
