/*
 * stock.h: what a resident launcher keeps ready and takes back: the template,
 * network namespaces, cgroups, and the file systems of islands that are gone.
 * launcher.h says how a caller fills it; here is what the launcher itself asks.
 */
#pragma once

#include "engine/native/launcher.h"

/* One out of the pool with the plan's limits, or a new one that has none yet. */
int stock_take_cgroup(struct launcher *l, const struct cgroups *host, const struct plan *p,
		      struct cgroup *ret, struct cay_error *err);
/* Back into the pool, if it is whole and there is room. */
void stock_give_cgroup(struct launcher *l, struct cgroup *c);
/* Removes those of the pool that are host's. */
void stock_drop_cgroups(struct launcher *l, const struct cgroups *host);

/* The namespace's last holder takes the mounts down: not init, whose end is waited for. */
void stock_keep_mounts(struct launched *i);
void stock_leave_mounts(struct launched *i);

/* "mnt", "net", "user" of an island: an fd, or -errno. */
int stock_open_namespace(const struct launched *i, const char *name);

void stock_done(struct launcher *l);
