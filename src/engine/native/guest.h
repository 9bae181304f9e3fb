/*
 * guest.h: an island in the care of the launcher's process, from the moment it is
 * asked for until its PID 1 is reaped and its end was reported; and the commands on
 * it. For service.c alone.
 */
#pragma once

#include "base/loop.h"
#include "engine/native/bare.h"
#include "engine/native/launcher.h"
#include "engine/native/rush.h"
#include "engine/native/service_rules.h"
#include "engine/service.h"

#define BUCKETS    256
#define GUESTS_MAX 16384

/* The command that only looks whether a new island is well. */
#define CHECK_COMMAND UINT32_MAX

struct command {
	struct command *next;
	struct guest *guest;
	uint32_t number;
	uint32_t flags;
	enum cause cause;
	bool ended; /* only its cgroup is left, because something of it still dies */
	struct command_cgroup cgroup;
	uint64_t cpu_time_ms, cpu_before_ms; /* its limit, 0: none; the island's when it began */
	struct loop_timer deadline, tick;    /* tick: looks at the CPU time */
};

struct guest {
	struct guest *next;
	struct service *service;
	uint32_t number;
	bool single; /* SERVICE_RUN: it ends with its only program */
	bool own;    /* FLAG_OWN: one command at a time, and nothing outlives it */
	bool frozen; /* its PID 1 hears nothing */
	struct plan *plan;
	struct launched island;
	struct loop_fd control, end, oom;
	struct command *commands;
	enum cause cause;
	int status;
	bool failed;
	struct cay_error error;
	int64_t began;            /* as rush.h has it */
	uint64_t oom_kills;       /* that were told of */
	struct loop_timer linger; /* its steward is gone, and something still dies */
	unsigned lingered;
};

struct making;
struct removal;

struct service {
	struct loop *loop;
	struct launcher launcher;
	struct loop_fd asker;
	struct loop_fd news;        /* where other rules come from; fd -1: none do */
	struct service_rules given; /* the last that came so */
	struct guest *guests[BUCKETS];
	size_t n_guests;
	struct rush rush;
	size_t cpus;               /* that islands can be made by */
	struct service_stock told; /* the last that was reported */
	struct loop_timer stock;   /* when there is nothing else to do */
	struct loop_timer tend;    /* zygotes */
	struct making *makings;    /* islands that wait for their workspace: making.h */
	struct copying *copyings;  /* of workspaces: the same */
	struct loop_fd emptier;    /* a child that removes trees, by its pidfd; or -1 */
	pid_t emptier_pid;
	const struct bare_rules *bare; /* or NULL */
	const struct limits *maximum;  /* or NULL */
	bool may_degrade;
	struct removal *removals; /* workspaces on their way out: removal.h */
	bool empty_again;
	struct buf known; /* SERVICE_SWEEP: names of the packets so far */
	bool known_lost;  /* not all of them: nothing may be removed by the rest */
	int code;
};

/* Makes an island that lives on; its workspace is there. who: guest_new(). */
int service_make(struct service *s, uint32_t number, uint32_t flags, const struct plan *p,
		 const struct bare_user *who, struct cay_error *err);

void service_report(struct service *s, const struct service_report *r);
void service_report_failure(struct service *s, uint32_t island, uint32_t command,
			    const struct cay_error *err);

/*
 * Makes the island and a guest of it, which is not watched yet; NULL and err. who: there is
 * no island (bare.h), and the programs are that user's; or NULL.
 */
struct guest *guest_new(struct service *s, uint32_t number, uint32_t flags, const struct plan *p,
			const struct bare_user *who, struct cay_error *err);

/* From here on its end comes by itself. 0 or -errno. */
int guest_watch(struct guest *g);

/* Ends it without a word, at once. */
void guest_drop(struct guest *g);

struct guest *guest_find(struct service *s, uint32_t number);
void guest_kill(struct guest *g, enum cause cause);

/*
 * Sends the order: command, flags and times of the request. What can't be sent ends the
 * island, as nobody knows what it heard of it.
 */
int command_start(struct guest *g, const struct service_request *q, const struct plan *p,
		  const int stdio[3], struct cay_error *err);

/* One that runs; or also one that has ended and left something running. NULL if there is none. */
struct command *command_find(const struct guest *g, uint32_t number);
struct command *command_known(const struct guest *g, uint32_t number);
void command_kill(struct command *c, enum cause cause);

/* SIGINT for a command, by PID 1: one that has ended, or never was, is none of its own. */
void guest_interrupt(struct guest *g, uint32_t command);

struct plan *plan_copy(const struct plan *p);
