/*
 * service_rules.h: what the launcher holds plans to: the operator's, from the settings. It is born
 * with them; others may come while it runs, from its supervisor and from nobody else, as bytes:
 * the launcher reads no text.
 */
#pragma once

#include "core/error.h"
#include "core/limits.h"
#include "engine/native/bare_user.h"
#include "policy/mounts.h"

#include <stdbool.h>

struct service_rules {
	struct mount_rules mounts;
	struct bare_rules bare;
	struct limits maximum; /* for all plans */
	bool may_degrade;      /* plans may go without a limit that can't be enforced */
};

void service_rules_done(struct service_rules *r);

/* An fd of what the other one reads; or -errno. */
int service_rules_pack(const struct service_rules *r);

/* *ret is the caller's; -errno: it is none of that. */
int service_rules_unpack(int fd, struct service_rules *ret);
