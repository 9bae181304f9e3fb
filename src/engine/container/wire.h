/*
 * wire.h: what passes between cay-guest, PID 1 of a container, and its keeper, over the one stream
 * that an attach gives. Both are of the same build, so there are no versions.
 *
 * Frames: a head and its body. To the guest:
 *
 *   SETUP      what it is made for: struct wire_setup, the mounts' struct wire_mount, a plan.
 *              Once, and the first. Answer: READY of command 0, or FAILED of it; then it takes
 *              no order.
 *   ORDER      starts a command: struct wire_order, and a plan where something is executed.
 *              Answer: READY when it runs, and at last EXITED; or FAILED.
 *   CLEAR      ends a command and all it started, or with command 0 all that runs
 *   INTERRUPT  SIGINT for a command's process group
 *   SIZE       struct wire_size: of a command's terminal
 *   ASK_USE    Answer: USE; one comes by itself where memory ran out, or time is counted
 *
 * Both ways, about one stream of a command (enum wire_stream):
 *
 *   DATA       bytes of it
 *   CREDIT     uint64_t: so many more may be sent. WIRE_WINDOW to begin with.
 *   CLOSE      from where bytes come: that was all; from where they go: nobody reads them
 *
 * A stream that is not known any more is nothing wrong: its end may be on its way. The guest
 * believes its keeper, which believes nothing: user code can't be PID 1, but it can have broken it.
 */
#pragma once

#include "core/result.h"
#include "engine/order.h"

#include <stdint.h>

#define WIRE_WINDOW   (256u << 10) /* bytes of a stream that can be under way */
#define WIRE_CHUNK    (32u << 10)  /* the longest DATA */
#define WIRE_BODY_MAX (ORDER_PLAN_MAX + 4096u)
#define WIRE_COMMANDS 64u /* that run at the same time */

enum wire_kind {
	WIRE_SETUP = 1,
	WIRE_ORDER,
	WIRE_CLEAR,
	WIRE_INTERRUPT,
	WIRE_SIZE,
	WIRE_ASK_USE,
	WIRE_READY,
	WIRE_FAILED, /* a struct cay_error */
	WIRE_EXITED, /* a struct wire_end */
	WIRE_USE,    /* a struct wire_use */
	WIRE_DATA,
	WIRE_CREDIT,
	WIRE_CLOSE,
	WIRE_KINDS
};

enum wire_stream {
	WIRE_IN,  /* to the program: its standard input, terminal or channel */
	WIRE_OUT, /* from it */
	WIRE_ERR,
	WIRE_BACK, /* from its channel */
	WIRE_STREAMS
};

struct wire_head {
	uint32_t kind;
	uint32_t command;
	uint32_t stream; /* enum wire_stream; 0 where it is about none */
	uint32_t len;    /* of what follows */
};

/* What a bind must lead to: of the nth mount of the plan. */
struct wire_mount {
	uint64_t dev, ino;
};

struct wire_setup {
	uint32_t uid, gid; /* who we are to be */
	uint32_t n_mounts; /* struct wire_mount that follow */
	uint32_t pad;
};

struct wire_order {
	uint32_t flags; /* enum order_flags */
	uint32_t input; /* it has standard input */
	uint32_t own;   /* all that runs ends with it */
	uint32_t clock; /* USE is to be told again and again: CPU time is counted */
	uint32_t rows, columns;
};

struct wire_size {
	uint32_t rows, columns;
};

/* By the container's cgroup, as it is seen in there; 0 where it can't be. */
struct wire_use {
	uint64_t cpu_us, memory_bytes, memory_peak_bytes;
	uint64_t oom_kills;
	uint32_t processes, processes_peak;
};

struct wire_end {
	int32_t status; /* from wait() */
	uint32_t pad;
	uint64_t cpu_us, memory_peak_bytes; /* it and what it waited for */
	struct wire_use use;
};

/* What PID 1 found about itself. */
struct wire_facts {
	uint32_t uid, gid;
	uint64_t caps_effective, caps_permitted, caps_inheritable, caps_bounding, caps_ambient;
	int32_t pid;
	int32_t no_new_privs, seccomp_mode, dumpable;
	int32_t landlock; /* the ABI */
	int32_t root_read_only;
	int32_t only_loopback;
	int32_t user_mapped;                            /* its ids are not the host's */
	uint64_t tmp_bytes, workspace_bytes, shm_bytes; /* 0: none of its own */
	uint32_t cgroup;                                /* 1, 2; 0: none to be seen */
	uint32_t pad;
	uint64_t memory_bytes, pids, cpus_milli; /* 0: not limited */
	uint64_t namespaces[NAMESPACES];
};
