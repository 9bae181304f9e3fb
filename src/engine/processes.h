/*
 * processes.h: the processes of an island, as its PID 1 sees them in /proc. For where no
 * cgroups tell commands apart.
 */
#pragma once

#include <stddef.h>
#include <sys/types.h>

/*
 * Kills all but PID 1 and the trees of those that are spared. What has lost its parents is
 * nobody's, and killed. For PID 1 alone: children that it has not reaped keep their pids.
 */
void processes_kill_but(const pid_t *spared, size_t n);
