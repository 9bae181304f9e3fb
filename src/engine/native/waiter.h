/*
 * waiter.h: a program that is started ahead of time, and waits for its order on an island that was
 * made ahead: what interpreters get that can't be cloned, as zygotes are, because they have
 * threads.
 *
 * Theory of operation
 *
 *   launcher ──clone3──> init (PID 1) ──vfork──> PID 2 ──exec──> interpreter, waits for its order
 *      │                    │                                          │ then runs the program
 *      └── control ─────────┴── socket, its standard input ────────────┘
 *
 * PID 2 is made when the island is, by the same steps as any program's process. What it reads back
 * before its exec is kept by PID 1, and told when an order comes. That one goes on to the
 * interpreter: the plan, and standard input and output. In its place those are the socket, the
 * object by which it takes orders (warm/node.c), and nothing: they are gone with the order. So
 * there is one order, and one program, on each such island; nothing of another's was ever there.
 *
 * An interpreter that is not there any more when its order comes is no harm: the program is
 * executed, on the same island.
 */
#pragma once

#include "engine/native/island.h"

#include <stdbool.h>

/* What the interpreter reads when it starts, of the island's own /sys; also its threads, later. */
#define WAITER_BOOT      "start.js"
#define WAITER_BOOT_PATH "/sys/" WAITER_BOOT
#define WAITER_OPTION    "-r" /* the word before it */

/*
 * What it takes in memory while it waits. Measured, node 20: 50 MiB are resident, of which 45 are
 * its file's and so everybody's, and 5 its own; and there are the kernel's, for seven threads.
 */
#define WAITER_BYTES (12u << 20)

/* It takes so long, of CPU time, until it waits; and more than that on a slow machine. */
#define WAITER_CPU_S 1

/* Threads that it has while it waits, with room for what puts files there meanwhile. */
#define WAITER_PIDS_MIN 24

/* Nobody's number, by which its end is told: who has just taken the island does not care. */
#define WAITER_COMMAND (UINT32_MAX - 1)

struct waiter {
	const struct plan *plan; /* its command line and environment; nothing else is looked at */
	const char *boot;        /* what is put at WAITER_BOOT_PATH */
	int module;              /* what it has for its standard output */
};

/* Writes the boot's text, while /sys is made. 0 or -errno. */
int waiter_place(const struct waiter *w, int sys_fd);

/* In PID 1, before it waits for orders. */
int waiter_start(struct island *i, struct cay_error *err);

/*
 * Gives it the order that i has, and tells the launcher what was read back; false: it does not take
 * it, and what is ordered is to be started.
 */
bool waiter_hand_over(struct island *i);

/* Another program starts: ends one that still waits. */
void waiter_drop(struct island *i);

/* Whether this process, which ended, was it: then the launcher is told, unless it had an order. */
bool waiter_ended(struct island *i, pid_t pid);
