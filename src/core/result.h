/*
 * result.h: how a run ended, what it used, and what really held it.
 */
#pragma once

#include "base/strv.h"
#include "core/capture.h"
#include "core/decision.h"
#include "core/egress.h"
#include "core/event.h"
#include "core/id.h"

#include <stdbool.h>
#include <stdint.h>

struct json;

enum status {
	STATUS_OK,
	STATUS_FAILED,
	STATUS_SIGNAL,
	STATUS_TIMEOUT,
	STATUS_OUT_OF_MEMORY,
	STATUS_OUTPUT_LIMIT,
	STATUS_CANCELLED,
	STATUS_INTERRUPTED,
	STATUS_SANDBOX_ERROR,
	STATUSES
};

const char *status_name(enum status s);

enum hold {
	HOLD_UNKNOWN,
	HOLD_NONE,
	HOLD_USERNS,
	HOLD_CGROUP1,
	HOLD_CGROUP2,
	HOLD_RLIMIT,
	HOLD_TMPFS,
	HOLD_LOOP,
	HOLD_ALLOWLIST,
	HOLD_FULL,
	HOLD_HOST,
	HOLD_KEPT,
	HOLDS
};

/* NULL: not known. */
const char *hold_name(enum hold h);

enum hold network_hold(enum network_mode m);

/* What held the program, read back from the island itself. Goes as it is between processes. */
struct isolation {
	enum hold user;   /* userns, none */
	enum hold memory; /* cgroup2, cgroup1, none */
	enum hold pids;   /* cgroup2, cgroup1, rlimit, none */
	enum hold cpu;
	enum hold disk;         /* tmpfs, loop, none */
	enum hold seccomp;      /* allowlist, none */
	enum hold network;      /* none, allowlist, full, host */
	enum hold capabilities; /* none, or kept in direct runs */
	int landlock;           /* ABI, 0: none */
	bool no_new_privs;
	bool read_only_root;
	unsigned namespaces; /* bits of enum island_ns order: user, pid, mount, net, ipc, uts,
				cgroup, time */
	unsigned degraded;   /* limit_bit() of each that was not enforced */
};

#define NAMESPACES       8
#define NAMESPACE_CGROUP 6
extern const char *const namespace_names[NAMESPACES];

struct usage {
	double wall_ms;
	double cpu_ms; /* NAN: neither this nor memory is known */
	uint64_t memory_peak_bytes;
	uint64_t processes_peak; /* 0: not known */
};

struct file_out {
	char *path;
	char *data;
	size_t size;
};

/* What happened before the program could begin, in a language that is compiled. */
struct compilation {
	bool begun;
	bool ended;      /* else it was ended with the run */
	int wait_status; /* where it ended */
	double wall_ms;
	struct capture output; /* of both streams; empty where output was passed through */
};

#define RESULT_START_SIZE 48

struct result {
	char id[ID_SIZE];
	enum status status;
	char message[256];
	bool exited; /* exit_code says how */
	int exit_code;
	int signal; /* 0: none */
	bool timed_out;
	struct compilation compile;
	struct capture output[STREAMS]; /* empty where output was passed through */
	/* Of code whose values are shown. */
	char *context;          /* the interpreter that it ran in, by name; NULL: none that stays */
	bool state_lost;        /* that one is gone, and all it remembered */
	struct json *results;   /* MIME bundles; NULL: none */
	struct json *exception; /* {name, value, traceback}; NULL: none */
	struct strv notes;      /* what was left out of it */
	struct file_out *files;
	size_t n_files;
	struct usage usage;
	double queued_ms;              /* that it waited for room, before all else */
	char start[RESULT_START_SIZE]; /* "warm:SET"; "kept": it was there; "": cold */
	char *engine, *engine_reason, *image, *language, *version;
	char sandbox[ID_SIZE]; /* "": an island of its own */
	bool sandboxed;
	struct isolation isolation;
	struct decision decision; /* what policy said of it */
	struct strv allow, block; /* the rules of its network */
	struct egress_log egress; /* what became of its ways out */
};

void result_done(struct result *r);

/* "warm:SET", "kept" or "cold". */
const char *result_start(const struct result *r);

/* The result object of the API; the caller frees it. NULL when memory is out. */
struct json *result_json(const struct result *r);
struct json *isolation_json(const struct isolation *i);

/* Where it was not sandboxed and there is nothing else to say: who reads only this reads that. */
void result_warn(struct result *r, unsigned uid);

/* What `cay run` exits with: the program's code, 128+n, 124 for time, 137 for memory. */
int result_exit_code(const struct result *r);
