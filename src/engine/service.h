/*
 * service.h: what is said between an engine's process (the native one's is the launcher:
 * native/service_main.h) and whoever wants islands (the api, which has no rights of its own).
 *
 * One SOCK_SEQPACKET pair. A request is one packet: struct service_request, behind it
 * a plan where there is one; fds ride along. A report is one struct service_report.
 * Islands and commands go by numbers that the asker chooses, never 0 and never twice.
 *
 *   RUN      makes an island, runs the plan's program on it, and that is its end.
 *            Answer: GONE, with all that is known of it; or FAILED.
 *   MAKE     makes an island that lives on. Answer: READY when it stands; or FAILED.
 *            With FLAG_OWN it is for one command after another: what a command leaves
 *            running is ended with it, and EXITED says what all of it used.
 *   COMMAND  starts the plan's program there. Answer: READY if FLAG_TELL_READY was
 *            given; then EXITED; or FAILED.
 *   KILL     ends one command, or with command 0 the whole island, for a cause.
 *   INTERRUPT  SIGINT for the process group of one command. No answer.
 *   FREEZE, THAW, USAGE   Answer: USAGE, or FAILED. USAGE of a command is of that alone, with its
 *            number; of one that has ended there is none but its EXITED.
 *   AHEAD    islands like this one are kept ready for good, `command` of them at least. Of what is
 *            asked for again and again some are anyway.
 *   DISCARD  removes the kept workspaces whose names follow (char[ID_SIZE] each).
 *   COPY     makes a kept workspace a copy of another, which nobody has mounted: two names
 *            follow, from and to. Answer, about the number that it was given: GONE; or FAILED.
 *            KILL ends it.
 *   SWEEP    removes all others: those whose sandboxes nobody knows any more. Names that do
 *            not fit one packet come in several; all but the last have FLAG_MORE.
 *
 * RUN and MAKE with FLAG_BARE are without an island (native/bare.h), where the operator's mode lets
 * them; whom they run as is the launcher's to find out.
 *
 * An island with a network is first of all told of by NETWORK, whose fds are its wires
 * (egress/wire.h): until somebody has them carried, its connections wait.
 *
 * An island that ends, for whatever reason, is told of by GONE. How much stands ready is in
 * every report; one of its own says so when there is nothing more to prepare. The launcher believes
 * nothing it is sent: plans are checked and held to the operator's maxima, host paths judged
 * again by what they lead to. A request may shorten its plan's times; only files agents, whose
 * program is ours, and terminals and what stays, which end with their sandbox, may be given more.
 * Each side ends when the other is gone.
 */
#pragma once

#include "core/error.h"
#include "core/result.h"
#include "engine/order.h"
#include "engine/watch.h"

#include <stdint.h>

enum service_request_kind {
	SERVICE_RUN = 1,
	SERVICE_MAKE,
	SERVICE_COMMAND,
	SERVICE_KILL,
	SERVICE_FREEZE,
	SERVICE_THAW,
	SERVICE_USAGE,
	SERVICE_AHEAD,
	SERVICE_DISCARD,
	SERVICE_SWEEP,
	SERVICE_INTERRUPT,
	SERVICE_COPY,
};

/* Besides those of enum order_flags. */
#define FLAG_TELL_READY (1u << 16)
#define FLAG_OWN        (1u << 17)
#define FLAG_COLD       (1u << 18) /* RUN, MAKE: not one that was made ahead */
#define FLAG_BARE       (1u << 19) /* RUN, MAKE: without an island, if the rules allow it */
#define FLAG_PEER       (1u << 20) /* of those: the last fd is the caller's connection */
#define FLAG_MORE       (1u << 21) /* SWEEP: more names follow */
#define FLAG_STAYS      (1u << 22) /* COMMAND: it is used again and again, until its sandbox ends */

struct service_request {
	uint32_t kind;
	uint32_t island, command;
	uint32_t flags;
	uint32_t cause; /* SERVICE_KILL: enum cause */
	uint32_t pad;
	/* What the program has left of its time; 0: what the plan says. */
	uint64_t timeout_ms, cpu_time_ms;
};

/* Header and plan in one packet; or names. */
#define SERVICE_PACKET_MAX (sizeof(struct service_request) + ORDER_PLAN_MAX)
#define SERVICE_NAMES_MAX  (ORDER_PLAN_MAX / ID_SIZE)
#define SERVICE_SWEEP_MAX  (1u << 20) /* of all packets */

enum service_report_kind {
	REPORT_READY = 1,
	REPORT_FAILED,
	REPORT_EXITED,
	REPORT_GONE,
	REPORT_USAGE,
	REPORT_NETWORK, /* EGRESS_FDS fds ride along */
	REPORT_STOCK,   /* of no island: only how much stands ready has changed */
};

/* What stands ready for the next islands; every report has it. */
struct service_stock {
	uint32_t islands, networks, cgroups, pad;
};

struct service_report {
	uint32_t kind;
	uint32_t island, command;
	int32_t status;     /* from wait(); -1: not known */
	uint32_t cause;     /* enum cause */
	uint32_t processes; /* REPORT_USAGE: now */
	uint64_t memory_bytes;
	struct service_stock stock;
	struct usage usage;
	struct isolation isolation;
	uint32_t warm;          /* the island was borne by an interpreter that had been started */
	uint32_t uid;           /* without an island: whom it runs as; else 0 */
	struct cay_error error; /* REPORT_FAILED */
};
