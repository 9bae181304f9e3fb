/*
 * service.h: the launcher as a process of its own, and what is said between it and
 * whoever wants islands (the api, which has no rights of its own).
 *
 * One SOCK_SEQPACKET pair. A request is one packet: struct service_request, behind it
 * a plan where there is one; fds ride along. A report is one struct service_report.
 * Islands and commands go by numbers that the asker chooses, never 0 and never twice.
 *
 *   RUN      makes an island, runs the plan's program on it, and that is its end.
 *            Answer: GONE, with all that is known of it; or FAILED.
 *   MAKE     makes an island that lives on. Answer: READY when it stands; or FAILED.
 *   COMMAND  starts the plan's program there. Answer: READY if FLAG_TELL_READY was
 *            given; then EXITED; or FAILED.
 *   KILL     ends one command, or with command 0 the whole island, for a cause.
 *   CLEAR    ends whatever runs there, and leaves the island.
 *   FREEZE, THAW, USAGE   Answer: USAGE, or FAILED.
 *   AHEAD    islands like this one are kept ready, `command` of them.
 *   DISCARD  removes the kept workspaces whose names follow (char[ID_SIZE] each).
 *   SWEEP    removes all others: those whose sandboxes nobody knows any more.
 *
 * An island that ends, for whatever reason, is told of by GONE. How much stands ready is in
 * every report; one of its own says so when there is nothing more to prepare. The launcher believes
 * nothing it is sent: plans are checked, host paths judged again by what they lead to.
 * Each side ends when the other is gone.
 */
#pragma once

#include "core/error.h"
#include "core/result.h"
#include "engine/native/island.h"
#include "engine/watch.h"
#include "policy/mounts.h"

#include <stdint.h>

enum service_request_kind {
	SERVICE_RUN = 1,
	SERVICE_MAKE,
	SERVICE_COMMAND,
	SERVICE_KILL,
	SERVICE_CLEAR,
	SERVICE_FREEZE,
	SERVICE_THAW,
	SERVICE_USAGE,
	SERVICE_AHEAD,
	SERVICE_DISCARD,
	SERVICE_SWEEP,
};

/* Besides those of enum order_flags. */
#define FLAG_TELL_READY (1u << 16)

struct service_request {
	uint32_t kind;
	uint32_t island, command;
	uint32_t flags;
	uint32_t cause; /* SERVICE_KILL: enum cause */
	uint32_t pad;   /* the plan behind it is aligned */
};

/* Header and plan in one packet. */
#define SERVICE_PACKET_MAX (sizeof(struct service_request) + ORDER_PLAN_MAX)

enum service_report_kind {
	REPORT_READY = 1,
	REPORT_FAILED,
	REPORT_EXITED,
	REPORT_GONE,
	REPORT_USAGE,
	REPORT_STOCK, /* of no island: only how much stands ready has changed */
};

/* What stands ready for the next islands; every report has it. */
struct service_stock {
	uint32_t islands, networks, cgroups, pad;
};

/* struct isolation, without pointers. */
struct isolation_wire {
	char user[12], memory[12], pids[12], cpu[12], disk[12], seccomp[12], network[12],
		capabilities[12];
	int32_t landlock;
	uint32_t namespaces;
	uint8_t no_new_privs, read_only_root;
	char degraded[64]; /* names with a space behind each */
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
	struct isolation_wire isolation;
	struct cay_error error; /* REPORT_FAILED */
};

void isolation_pack(const struct isolation *i, struct isolation_wire *ret);

/* The bytes are not trusted. 0, or -ENOMEM. */
int isolation_unpack(const struct isolation_wire *w, struct isolation *ret);

/*
 * The launcher's whole life: makes islands as the other end of sock asks, until that is
 * closed. kept_dir: kept.h; -1: no workspaces are kept. Returns an exit code.
 */
int service_main(int sock, const struct mount_rules *rules, int kept_dir);
