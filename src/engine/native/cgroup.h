/*
 * cgroup.h: limits by cgroup v1, v2, or both (hybrid hosts).
 *
 * struct cgroups is how this machine does it, found out once by a launcher;
 * struct cgroup is one island's. A directory is named cay-PID-… after the
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
#include <sys/types.h>

enum controller { CONTROLLER_MEMORY, CONTROLLER_PIDS, CONTROLLER_CPU, CONTROLLERS };

extern const char *const controller_names[CONTROLLERS];

#define CGROUP_NAME_SIZE 64

struct cgroups {
	int dir[CONTROLLERS];       /* where islands' directories are made; -1: not to be had */
	bool v2[CONTROLLERS];       /* which kind dir is */
	int unified;                /* the v2 tree, for birth and cgroup.kill; -1: none */
	char why[CONTROLLERS][160]; /* why a controller can't be had */
};

struct cgroup {
	const struct cgroups *host;
	char name[CGROUP_NAME_SIZE]; /* "" until made */
	bool has_unified;            /* there is a v2 directory */
	bool has[CONTROLLERS];       /* this controller is used: there is a directory */
	bool joins[CONTROLLERS];     /* v1: the island joins it by tasks */
	int unified;                 /* v2: where the island is born; -1: none, or let go */
	int tasks[CONTROLLERS];      /* v1: the island writes 0 here; -1 */
	int oom_event;               /* readable on OOM (v1); -1 */
	struct limits limits;        /* as set */
	bool killed;                 /* by cgroup_kill() */
	bool reused;                 /* by a pool: counters go on where the last island stopped */
	uint64_t oom_kills_before, cpu_usec_before;
};

/* Finds out; lacking controllers are no failure here, but have a reason in why[]. */
void cgroups_init(struct cgroups *c);
void cgroups_done(struct cgroups *c);

/* Removes what processes that are gone left behind; returns how many directories. */
int cgroups_sweep(const struct cgroups *c);

/*
 * A directory in the v2 tree for a zygote and the islands it bears, which are born into theirs by
 * a process that has no right to write anywhere but there: owner may. The rest is host's. ret is
 * for cgroups_below_remove() in any case.
 */
struct cgroups_below {
	struct cgroups cgroups;
	const struct cgroups *host; /* NULL: there is nothing to be removed */
	char name[CGROUP_NAME_SIZE];
};

int cgroups_below_make(const struct cgroups *host, uid_t owner, struct cgroups_below *ret,
		       struct cay_error *err);
void cgroups_below_remove(struct cgroups_below *b);

/* So that its owner (0: nobody else is) may put a process into it by clone3(). 0 or -errno. */
int cgroup_open_birth(const struct cgroup *c, uid_t owner);

#define CGROUP_NONE ((struct cgroup){.unified = -1, .tasks = {-1, -1, -1}, .oom_event = -1})

/*
 * In two parts, so that the second, which takes longer, can run while the
 * island already sets itself up: the directory to be born in, and then the
 * limits. A limit that can't be had is CAY_E_NOT_ENFORCEABLE, unless
 * allow_degraded; then it has none. cgroup_remove() in any case.
 */
int cgroup_make(const struct cgroups *host, struct cgroup *ret, struct cay_error *err);
int cgroup_limit(struct cgroup *c, const struct limits *limits, bool allow_degraded,
		 struct cay_error *err);

/*
 * An island that lives on needs none of the fds by which it was made: all else goes by its name.
 * It can't be used again then.
 */
void cgroup_let_go(struct cgroup *c);

/*
 * For a pool: makes the directories of an island that is gone ready for the
 * next, which saves making and removing them (0.3 ms on v1). 0 or -errno; then
 * they are only good for cgroup_remove().
 */
int cgroup_reuse(struct cgroup *c, const struct limits *limits);

/* Reads the limits back: sets memory, pids and cpu of ret to how each is held. */
void cgroup_read_back(const struct cgroup *c, const struct limits *limits, struct isolation *ret);

/* What an island must know to join and to see that it did. */
struct cgroup_ticket {
	char name[CGROUP_NAME_SIZE];
	uint8_t v1[CONTROLLERS], v2[CONTROLLERS]; /* which kind holds each controller, if any */
};

void cgroup_ticket(const struct cgroup *c, struct cgroup_ticket *ret);

/* On the island: joins by the tasks fds, which are in the order of v1. */
int cgroup_join(const struct cgroup_ticket *t, const int *tasks, struct cay_error *err);

/* Whether /proc says that the process (0: this one) is in all of them. Before it has a cgroup
 * namespace, or from outside. */
bool cgroup_is_joined(const struct cgroup_ticket *t, pid_t pid);

/*
 * Kills every process in it, where the kernel can do that at once. It is of no use
 * to another island then: Linux 6.18 kills whatever is born into a cgroup that was
 * killed more often than its parent's.
 */
void cgroup_kill(struct cgroup *c);

/* The number of OOM kills. */
uint64_t cgroup_oom_kills(const struct cgroup *c);

/* CPU time of all its processes, living and dead; 0 if it is not known. */
uint64_t cgroup_cpu_ms(const struct cgroup *c);

/* From now on it is counted anew; what it was until now, in us. */
uint64_t cgroup_restart_clock(struct cgroup *c);

/* The same of any v2 directory, since it was made. */
uint64_t cgroup_dir_cpu_usec(int dir);

void cgroup_usage(const struct cgroup *c, struct usage *ret);

/* What is in use at this moment; 0 where it is not known. */
void cgroup_now(const struct cgroup *c, uint64_t *ret_memory_bytes, uint32_t *ret_processes);

/* Stops all its processes, or lets them go on. 0, -ENOTSUP where the kernel can't, or -errno. */
int cgroup_freeze(const struct cgroup *c, bool on);

/* A live island's: when memory is out, one process goes and not all. */
void cgroup_spare_others(const struct cgroup *c);

/* Whether all its processes are gone, as far as the kernel says. */
bool cgroup_is_empty(const struct cgroup *c);

/* Removes the directories; its processes must be gone. */
void cgroup_remove(struct cgroup *c);

/*
 * One command's on a live island: a directory below the island's, so that what the
 * command started can be ended without the rest, and its CPU time be told from the
 * others'. It has no limits of its own.
 */
#define COMMAND_CGROUP "command-"

struct command_cgroup {
	int dir;   /* -1: there is none */
	int meter; /* v2, by which CPU time is known: dir, or another; -1: it is not known */
	bool v2;   /* dir is */
	char name[24];
};

#define COMMAND_CGROUP_NONE ((struct command_cgroup){.dir = -1, .meter = -1})
#define COMMAND_DOORS       2

/*
 * With a meter, or on v1 perhaps without: joining that takes some ms there. 0;
 * -ENOTSUP where the island has no cgroup; or -errno.
 */
int command_cgroup_make(const struct cgroup *c, uint32_t number, bool metered,
			struct command_cgroup *ret);

/* The files by which a process joins it: fds of the caller's. How many, or -errno. */
int command_cgroup_doors(const struct command_cgroup *m, int ret[COMMAND_DOORS]);

/* CPU time of all that was ever in it; 0 if it is not known. */
uint64_t command_cgroup_cpu_ms(const struct command_cgroup *m);

/*
 * What it took until now (command_spent.c). peak_bytes: the most resident memory that one of its
 * processes ever had. False: it is not known.
 */
struct command_spent {
	uint64_t cpu_us;
	uint64_t peak_bytes;
};

bool command_cgroup_spent(const struct command_cgroup *m, struct command_spent *ret);

/* Ends all that is in it. It can't be used again. */
void command_cgroup_kill(const struct command_cgroup *m);

/* -EBUSY while something of the command's still runs; then it stays for a later try. */
int command_cgroup_remove(const struct cgroup *c, struct command_cgroup *m);

/* Gives it up without removing it. */
void command_cgroup_close(struct command_cgroup *m);
