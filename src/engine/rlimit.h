/*
 * rlimit.h: resource limits of a process, only ever lowered.
 */
#pragma once

#include <stdint.h>

/*
 * Sets both limits to value, or to the hard one we have if that is lower:
 * raising needs CAP_SYS_RESOURCE. CPU time leaves a second between the two, so
 * that the program gets SIGXCPU, which says why, before SIGKILL. 0 or -1.
 */
int rlimit_lower(int resource, uint64_t value);
