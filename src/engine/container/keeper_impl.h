/*
 * keeper_impl.h: what the keeper's files share.
 */
#pragma once

#include "engine/container/containers.h"
#include "engine/container/keeper.h"
#include "engine/container/relay.h"
#include "policy/plan.h"

#include <stdbool.h>

struct keeper;

#define KEEPER_ASKED_MAX 64u /* of what is asked at the same time; more is not answered */

struct keeper_command {
	struct keeper *keeper;
	uint32_t number;
	uint32_t flags;
	enum cause cause;
	bool ended;
	uint64_t cpu_time_ms; /* 0: not limited */
	uint64_t cpu_before_us;
	bool cpu_known;
	struct loop_timer deadline;
	struct loop_timer sized; /* of a terminal: when its size is looked at */
	uint32_t rows, columns;
	struct keeper_command *next;
};

struct keeper {
	const struct keeper_config *config;
	struct loop *loop;
	struct loop_fd asker;
	struct docker *docker;
	struct container_id id;
	bool made;               /* there is a container */
	struct loop_timer setup; /* until it is ready */
	struct docker_stream stream;
	struct relay wire;
	struct plan *plan;
	uint32_t number; /* of the island */
	bool single, own, stands, frozen, failed, done;
	enum cause cause;
	int status;
	struct cay_error error;
	struct isolation isolation;
	struct wire_setup who;
	struct wire_mount mounts[PLAN_MOUNTS_MAX];
	char sources[PLAN_MOUNTS_MAX][PATH_MAX];
	struct usage usage;               /* of the single program, once it has ended */
	struct wire_use use;              /* the last that was told */
	uint32_t asked[KEEPER_ASKED_MAX]; /* by whom USE is waited for: commands, 0: the island */
	size_t n_asked;
	uint64_t oom_kills;
	struct keeper_command *commands;
	/* Of a run: what starts its program, once the container stands. */
	struct service_request held;
	int held_fds[3];
};

/* keeper_make.c: the container, as far as its PID 1 can be talked to. */
int keeper_make(struct keeper *k, struct cay_error *err);
/* With all that is in it. 0, or -1 where it may still be there. */
int keeper_remove(struct keeper *k, struct cay_error *err);

/* keeper_commands.c */
#define KEEPER_SINGLE 1u /* the number that a run's only program has inside */

int keeper_command_start(struct keeper *k, const struct service_request *q, uint32_t number,
			 const struct plan *p, int fds[3], struct cay_error *err);
void keeper_command_kill(struct keeper_command *c, enum cause cause);
void keeper_command_free(struct keeper_command *c);
/* One that has not ended. */
struct keeper_command *keeper_command_find(struct keeper *k, uint32_t number);
void keeper_command_ended(struct keeper_command *c, const struct wire_end *end);
void keeper_used(struct keeper *k, const struct wire_use *use);
/* What is known of one command: cpu_ms NAN where others run beside it. */
struct usage keeper_command_usage(const struct keeper *k, uint32_t number);
/* A stream of the command is over. */
void keeper_command_stream(struct keeper *k, uint32_t number);

/* keeper.c */
void keeper_report(struct keeper *k, const struct service_report *r);
/* The island ends now, for a reason. */
void keeper_end(struct keeper *k, enum cause cause);
