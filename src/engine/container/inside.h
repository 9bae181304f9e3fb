/*
 * inside.h: PID 1 of a container (cay-guest). It has the container's user and no rights; its memory
 * is shut, so that no program can look into it, and from inside its namespace nobody can end it. It
 * lives as long as its keeper's end of the wire.
 */
#pragma once

#include "core/error.h"
#include "engine/container/relay.h"
#include "policy/plan.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct inside;

/* One command, from its order until it has ended. */
struct inside_command {
	pid_t pid; /* 0: there is none here */
	uint32_t number;
	bool own, clock;
	int word_fd; /* what its process says until it has become the program */
	struct loop_fd word;
	struct inside *inside;
};

struct inside {
	struct loop *loop;
	struct relay wire;
	struct plan *plan; /* the container's, once it stands; until then nothing is started */
	bool told;         /* SETUP has come: there is no second */
	struct loop_fd children;
	struct loop_timer tick;
	uint64_t oom_told;
	struct inside_command commands[WIRE_COMMANDS];
};

/* What the program's process says before it is that: 0 bytes more when it is. */
struct inside_word {
	struct cay_error error;
};

/* Serves orders by these two fds until they end; returns what to exit with. */
int inside_serve(int in_fd, int out_fd);

/* inside_command.c: what becomes of an order. */

/* What a command has as 0, 1, 2, and our ends by stream; each may be -1. */
struct inside_ends {
	int theirs[3];
	int ours[WIRE_STREAMS];
};

#define INSIDE_ENDS_NONE ((struct inside_ends){.theirs = {-1, -1, -1}, .ours = {-1, -1, -1, -1}})

void inside_ends_done(struct inside_ends *e);
int inside_ends_open(const struct wire_order *o, struct inside_ends *ret, struct cay_error *err);

/*
 * In the child: becomes the program of the plan, or the files agent. word: where a failure goes,
 * and nothing when it worked.
 */
_noreturn_ void inside_become(const struct plan *island, const struct wire_order *o,
			      const struct plan *p, const struct inside_ends *ends, int word);

/* inside_facts.c */

int inside_facts(struct wire_facts *ret, struct cay_error *err);
void inside_use(struct wire_use *ret);

/* By its mountinfo: each mount is where it was to be, and not where the image's links lead. */
int inside_landed(const struct plan *p, const char *mountinfo, struct cay_error *err);

/* So it is, and each mount is what the keeper opened, by device and inode. */
int inside_check_mounts(const struct plan *p, const struct wire_mount *m, struct cay_error *err);
