/*
 * island.h: an island from the inside: what the child does between its clone
 * and the program's exec, as a table of steps, and PID 1 after that. (While it
 * waits for orders: orders.h.)
 *
 * Theory of operation
 *
 *   launcher ──clone3──> init (PID 1) ──vfork──> program (PID 2) ──exec──> user code
 *       │                  │                        │
 *       └── control ───────┴────────────────────────┘   one SOCK_SEQPACKET pair
 *
 *   launcher -> island   MESSAGE_MAPPED    ids are mapped
 *   launcher -> island   MESSAGE_LIMITED   cgroups are made (fds ride along)
 *   launcher -> island   MESSAGE_NETWORK   only by NETWORK_SENT: its fd rides along
 *   launcher -> island   MESSAGE_ORDER     only where it waits: what to start; fds ride along, and
 *                                          a plan follows unless it is the island's own
 *   launcher -> island   MESSAGE_CLEAR     only where it waits: end all that runs, or one command
 *   launcher -> island   MESSAGE_INTERRUPT only where it waits: SIGINT for one command's group
 *   island -> launcher   MESSAGE_READY     all steps done, facts read back and found good
 *   launcher -> island   MESSAGE_GO        where held: files are in, exec
 *   island -> launcher   MESSAGE_FAILED    a step or the exec failed (struct cay_error)
 *   island -> launcher   MESSAGE_EXITED    the program ended (wait status)
 *
 * Launcher and island work at the same time where they can: while the launcher
 * makes cgroups and then a network, the island lays out its root. The island itself
 * checks what it reads back, by the same function as the launcher, and does not
 * wait for an answer unless it is held: that would cost two wake-ups.
 *
 * The control socket is closed by exec, so user code never holds it. If the
 * launcher dies, PR_SET_PDEATHSIG kills PID 1 and with it everything inside;
 * before that is set, the missing message does.
 */
#pragma once

#include "core/error.h"
#include "core/result.h"
#include "engine/native/cgroup.h"
#include "engine/native/hostdir.h"
#include "engine/native/network.h"
#include "engine/order.h"
#include "engine/self.h"
#include "policy/plan.h"

#include <stdbool.h>
#include <stdint.h>

struct bare;
struct interpreter;
struct waiter;

/* What an island is born with; its network comes later. */
#define ISLAND_CLONE_FLAGS                                                          \
	(CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS | \
	 CLONE_NEWTIME | CLONE_PIDFD | CLONE_CLEAR_SIGHAND)

/* Where the control socket is kept while everything else is closed. */
#define CONTROL_FD 3

enum message_kind {
	MESSAGE_MAPPED = 1,
	MESSAGE_LIMITED,
	MESSAGE_NETWORK,
	MESSAGE_ORDER,
	MESSAGE_CLEAR,
	MESSAGE_READY,
	MESSAGE_GO,
	MESSAGE_FAILED,
	MESSAGE_EXITED,
	MESSAGE_INTERRUPT,
};

/* What the program's process found about itself right before exec. */
struct facts {
	uint32_t uid, gid;
	uint64_t caps_effective, caps_permitted, caps_inheritable, caps_bounding, caps_ambient;
	int32_t in_cgroups;
	int32_t no_new_privs;
	int32_t seccomp_mode;
	int32_t init_dumpable;
	int32_t landlock;
	int32_t root_read_only;
	uint64_t scratch_bytes;
	uint64_t workspace_bytes; /* of one that is kept, or a layer; else 0 */
	uint64_t open_files, core_bytes, processes;
	uint64_t namespaces[NAMESPACES]; /* inode numbers, in the order of namespace_names */
};

/* What only the launcher knows, and finds out while the island is busy. */
struct provision {
	struct cgroup_ticket ticket;
	uint64_t namespaces[NAMESPACES]; /* its own: the island's must be others */
};

struct order {
	uint32_t flags;
};

/* What a command used, it and what it waited for: from wait4(). */
struct spent {
	uint64_t cpu_us;
	uint64_t memory_peak_bytes;
};

struct message {
	uint32_t kind;
	uint32_t command; /* which one it is about; 0 where there is only one */
	int32_t status;   /* MESSAGE_EXITED: from wait(); MESSAGE_READY: READY_WAITED, or 0 */
	union {
		struct provision provision;
		struct facts facts;
		struct cay_error error;
		struct order order;
		struct spent spent;
	};
};

#define READY_WAITED 1 /* by what was started ahead, and had waited for it */

/*
 * The controls without which there is no island, degraded or not: are they all
 * in the facts? host: the launcher's own namespaces.
 */
int facts_check(const struct facts *f, const struct plan *p, const uint64_t host[NAMESPACES],
		struct cay_error *err);

/* The same for an interpreter that bears islands: it keeps capabilities, in its own user namespace.
 */
int facts_check_zygote(const struct facts *f, const uint64_t host[NAMESPACES],
		       struct cay_error *err);

/* Everything the child needs, prepared by the launcher before the clone. */
struct island {
	const struct plan *plan;
	int control;                    /* the island's end */
	int launcher;                   /* pidfd */
	int stdio[3];                   /* become 0, 1, 2 */
	const struct hostdir *hostdirs; /* one for each of the plan's mounts */
	const struct hostdir *image;    /* its root, where it is not the host's own */
	bool many_ids;                  /* a range is mapped; else only the island's user */
	bool in_template;               /* the host image's root is there already */
	enum network_way network;       /* where it comes from */
	bool ahead;                     /* waits for orders: stdio comes by those, and plans may */
	bool single; /* of those: it has one program only, whose process is there and takes the
			order */
	bool zygote; /* its program is an interpreter that bears islands: zygote.h */
	const struct interpreter *interpreter; /* that bore it, and runs its programs; or NULL */
	bool held;                             /* waits for MESSAGE_GO, and sends the scratch fd */
	uint64_t skip;                         /* tests only: bits of steps left out */

	/* Where there is no island, and this is the steward: bare.h. */
	const struct bare *bare;
	int end_all; /* what is written to, to end everything; -1 */

	/* What is started ahead on it, and waits: waiter.h; or NULL. Then PID 1's, once it is. */
	const struct waiter *waiter;
	int waiter_sock; /* -1: it takes no order, or has one */
	pid_t waiter_pid;
	struct facts waiter_facts;
	bool handed;              /* it has the island's last order */
	struct facts *keep_facts; /* in that one's process: they are not told, but put there */

	/* From MESSAGE_ORDER. */
	uint32_t command;
	struct order order;
	int command_cgroup[COMMAND_DOORS]; /* what is written to, to join them; -1 */

	/* From MESSAGE_LIMITED. */
	struct provision provision;
	int tasks[CONTROLLERS];

	/* Made by the steps. */
	int root_fd;
	int scratch_fd;
	int trees[PLAN_MOUNTS_MAX]; /* of hostdirs, ready to be placed */
	bool layered; /* the root is a layer in the scratch, which is attached for that */
	bool in_cgroups;
	int landlock;
};

/* The rows of the table: see island.c. Where a step runs. */
enum step_where {
	STEP_EARLY,   /* init, before ids are mapped and cgroups made */
	STEP_MAPPED,  /* init, when ids are mapped */
	STEP_ROOT,    /* the same, only where no template has the root */
	STEP_INIT,    /* init, when cgroups are made, too */
	STEP_PROGRAM, /* the program's process */
	STEP_ORDERED, /* the same, when it has its order */
	STEP_LAST,    /* the program's process, when files are in, before exec */
};

enum step_whose {
	EVERYONE,
	NOT_ZYGOTE, /* left to the islands that a zygote bears: after it, they could not do the rest
		     */
};

struct step {
	const char *name;
	enum step_where where;
	int (*run)(struct island *i, struct cay_error *err);
	enum step_whose whose;
};

extern const struct step island_steps[];
extern const unsigned n_island_steps;

/*
 * The program's process from its birth to its exec, by these lists; returns the exit
 * code where it can't. Not _noreturn_: it may run on a borrowed stack, see island.c.
 */
int island_program(struct island *i, char **argv, char **env);

/*
 * Executes it, found by the PATH in env; where it can't, tells the launcher and returns the
 * exit code. (Not _noreturn_: ASan looks at the stack there.)
 */
int island_exec(const struct island *i, char *const *argv, char *const *env);

/* Starts a process that becomes a program by island_program(), in our memory until it execs. */
pid_t island_vfork(struct island *i, char **argv, char **env);

/* Whether the order's program is run by the interpreter that bore the island. */
bool island_starts_warm(const struct island *i);

/* A list of the plan's as execve() wants it, on the heap. Ends the process without memory. */
char **island_list(const struct plan *p, struct plan_list l);

/* The child's whole life: never returns. */
_noreturn_ void island_main(struct island *i);
