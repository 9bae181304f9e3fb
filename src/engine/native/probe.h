/*
 * probe.h: finds out what this machine can enforce, by doing it.
 */
#pragma once

#include "core/error.h"
#include "policy/mounts.h"

#include <stdbool.h>
#include <stddef.h>

struct probe {
	const char *control; /* "user namespace" */
	char how[64];        /* "cgroup2", "ABI 7" */
	bool ok;
	bool required; /* a default run needs it */
	char why[256]; /* not ok: what happened */
	char todo[512];
};

#define PROBES_MAX 24

/* Tries every control on its own, then a whole default island; returns how many there are. */
size_t probe_all(struct probe ret[PROBES_MAX]);

/* Removes what killed runs left; returns how many things. */
int probe_clean(void);
