/*
 * probe.h: finds out what this machine can enforce, by doing it.
 */
#pragma once

#include "core/error.h"
#include "policy/mounts.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct probe {
	const char *control; /* "user namespace" */
	char how[256];       /* "cgroup2", "ABI 7" */
	bool ok;
	bool required; /* a default run needs it */
	char why[256]; /* not ok: what happened */
	char todo[512];
};

#define PROBES_MAX 24

/* What there is of images; store "": nowhere. */
struct probe_store {
	char store[PATH_MAX];
	size_t images;
	uint64_t bytes, budget_bytes; /* budget 0: none */
};

/* Tries every control on its own, then a whole default island; returns how many there are. */
size_t probe_all(struct probe ret[PROBES_MAX], struct probe_store *ret_store);

/*
 * Of that: where images are kept, and what can be done with those. many_ids: islands have ranges of
 * their own.
 */
size_t probe_images(struct probe *ret, bool many_ids, struct probe_store *ret_store);

/* Waits for a child that ends with an errno; pid < 0: it could not be made, errno says why. */
int probe_outcome(pid_t pid);

/* Removes what killed runs left; returns how many things. */
int probe_clean(void);
