/*
 * machine.h: what an island shows of itself as a machine: a /sys with the few
 * files by which programs decide how many threads and how much memory to use.
 */
#pragma once

#include "engine/native/cgroup.h"
#include "policy/plan.h"

/*
 * Fills an empty directory, which becomes /sys. Where the memory is limited by
 * cgroup v2, MACHINE_CGROUP in it is empty: a place for the file system itself.
 * 0 or -errno.
 */
int machine_describe(int sys_fd, const struct plan *p, const struct cgroup_ticket *t);

#define MACHINE_CGROUP "fs/cgroup"

/* How many CPUs the island may use at once, at most as many as we may. 0: can't be known. */
unsigned machine_cpus(const struct plan *p);
