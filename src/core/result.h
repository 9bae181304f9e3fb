/*
 * result.h: how a run ended, what it used, and what really held it.
 */
#pragma once

#include "core/capture.h"
#include "core/egress.h"
#include "core/event.h"
#include "core/id.h"
#include "base/strv.h"

#include <stdbool.h>
#include <stdint.h>

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

/* What held the program, read back from the island itself. Strings are static. */
struct isolation {
	const char *user;   /* "userns", "none" */
	const char *memory; /* "cgroup2", "cgroup1", "none" */
	const char *pids;   /* "cgroup2", "cgroup1", "rlimit", "none" */
	const char *cpu;
	const char *disk;         /* "tmpfs", "none" */
	const char *seccomp;      /* "allowlist", "none" */
	int landlock;             /* ABI, 0: none */
	const char *network;      /* "none", "allowlist", "full", "host" */
	const char *capabilities; /* "none", or "kept" in direct runs */
	bool no_new_privs;
	bool read_only_root;
	unsigned namespaces; /* bits of enum island_ns order: user, pid, mount, net, ipc, uts,
				cgroup, time */
	struct strv degraded;
};

#define NAMESPACES 8
extern const char *const namespace_names[NAMESPACES];

struct usage {
	double wall_ms;
	double cpu_ms;
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
	struct file_out *files;
	size_t n_files;
	struct usage usage;
	char *engine, *engine_reason, *image, *language, *version;
	char sandbox[ID_SIZE]; /* "": an island of its own */
	bool sandboxed;
	struct isolation isolation;
	struct strv allow, block; /* the rules of its network */
	struct egress_log egress; /* what became of its ways out */
};

void result_done(struct result *r);

/* A copy of its own; 0 or -ENOMEM. */
int isolation_copy(struct isolation *ret, const struct isolation *from);

struct json;

/* The result object of the API; the caller frees it. NULL when memory is out. */
struct json *result_json(const struct result *r);
struct json *isolation_json(const struct isolation *i);

/* What `cay run` exits with: the program's code, 128+n, 124 for time, 137 for memory. */
int result_exit_code(const struct result *r);
