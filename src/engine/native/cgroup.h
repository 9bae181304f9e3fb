/*
 * cgroup.h: limits by cgroup v1, v2, or both (hybrid hosts).
 *
 * struct cgroups is how this machine does it, found out once by a launcher;
 * struct cgroup is one island's. A directory is named cay-PID-ID after the
 * process that made it, so that what a killed one left can be told from what
 * is in use.
 */
#pragma once

#include "base/strv.h"
#include "core/error.h"
#include "core/limits.h"
#include "core/result.h"

#include <stdbool.h>
#include <stdint.h>

enum controller { CONTROLLER_MEMORY, CONTROLLER_PIDS, CONTROLLER_CPU, CONTROLLERS };

extern const char *const controller_names[CONTROLLERS];

struct cgroups {
	int dir[CONTROLLERS];         /* where islands' directories are made; -1: not to be had */
	bool v2[CONTROLLERS];         /* which kind dir is */
	int unified;                  /* the v2 tree, for birth and cgroup.kill; -1: none */
	char why[CONTROLLERS][160];   /* why a controller can't be had */
	bool swap;                    /* the host has swap: memory must limit it too */
};

#define CGROUP_NAME_SIZE 64

struct cgroup {
	const struct cgroups *host;
	char name[CGROUP_NAME_SIZE]; /* "" until made */
	int dir[CONTROLLERS];        /* -1: this controller is not used */
	int unified;                 /* -1: none */
	int tasks[CONTROLLERS];      /* v1: the child writes 0 here */
	int oom_event;               /* readable on OOM (v1); -1 */
	uint64_t oom_kills;          /* at the start: a pooled directory counts on */
	bool joined_by_birth;        /* every controller is v2 */
	unsigned made;               /* bits of controllers whose directory we made */
};

/* Finds out; lacking controllers are no failure here, but have a reason in why[]. */
void cgroups_init(struct cgroups *c);
void cgroups_done(struct cgroups *c);

/* Removes what processes that are gone left behind; returns how many directories. */
int cgroups_sweep(const struct cgroups *c);

#define CGROUP_NONE                                                                                \
	((struct cgroup){.dir = {-1, -1, -1}, .unified = -1, .tasks = {-1, -1, -1}, .oom_event = -1})

/*
 * Makes an island's directories and sets the limits. A limit that can't be had
 * is CAY_E_NOT_ENFORCEABLE, or, where allow_degraded, its name in degraded. On
 * failure nothing is left.
 */
int cgroup_make(const struct cgroups *host, const char *id, const struct limits *limits,
		bool allow_degraded, struct cgroup *ret, struct cay_error *err);

/* In the child: joins the v1 directories. 0 or -errno. */
int cgroup_join(const struct cgroup *c);

/* Reads back what is in force for pid: sets memory, pids and cpu of ret. */
int cgroup_verify(const struct cgroup *c, int pid, const struct limits *limits,
		  struct isolation *ret, struct cay_error *err);

/* Kills every process in it, where the kernel can do that at once. */
void cgroup_kill(const struct cgroup *c);

/* The number of OOM kills since cgroup_make(). */
uint64_t cgroup_oom_kills(const struct cgroup *c);

/* CPU time of all its processes, living and dead; 0 if it is not known. */
uint64_t cgroup_cpu_ms(const struct cgroup *c);

void cgroup_usage(const struct cgroup *c, struct usage *ret);

/* Removes the directories; its processes must be gone. */
void cgroup_remove(struct cgroup *c);
