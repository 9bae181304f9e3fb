/*
 * limits.h: every maximum that is not a setting, and the limits of a run.
 */
#pragma once

#include <stdint.h>

/* A run's limits. 0 means: not limited by this one (only where that is allowed). */
struct limits {
	uint64_t memory_bytes;
	uint64_t cpus_milli;
	uint64_t pids;
	uint64_t disk_bytes;
	uint64_t timeout_ms;
	uint64_t cpu_time_ms;
	uint64_t output_bytes; /* of each stream; 0 where output is passed through */
	uint64_t open_files;
	uint64_t file_size_bytes;
};

/* Defaults of settings, where they say nothing. */
#define LIMIT_DEFAULT_MEMORY     (512ull << 20)
#define LIMIT_DEFAULT_CPUS_MILLI 1000ull
#define LIMIT_DEFAULT_PIDS       50ull
#define LIMIT_DEFAULT_DISK       (100ull << 20)
#define LIMIT_DEFAULT_TIMEOUT_MS 60000ull
#define LIMIT_DEFAULT_OUTPUT     (1ull << 20)
#define LIMIT_DEFAULT_OPEN_FILES 1024ull

/* What a request may say at all. */
#define LIMIT_MIN_MEMORY     (4ull << 20)
#define LIMIT_MAX_MEMORY     (1ull << 44)
#define LIMIT_MIN_CPUS_MILLI 10ull
#define LIMIT_MAX_CPUS_MILLI 1024000ull
#define LIMIT_MIN_PIDS       2ull /* init and the program */
#define LIMIT_MAX_PIDS       4194304ull
#define LIMIT_MIN_DISK       (64ull << 10)
#define LIMIT_MAX_DISK       (1ull << 44)
#define LIMIT_MIN_TIME_MS    1ull
#define LIMIT_MAX_TIME_MS    (30ull * 24 * 3600 * 1000)
#define LIMIT_MIN_OUTPUT     2ull
#define LIMIT_MAX_OUTPUT     (1ull << 30)
/* What a daemon keeps of each stream: it puts results together for all, one by one. */
#define LIMIT_SERVED_OUTPUT  (8ull << 20)
#define LIMIT_MIN_OPEN_FILES 16ull
#define LIMIT_MAX_OPEN_FILES 1048576ull
#define LIMIT_MIN_FILE_SIZE  1ull
#define LIMIT_MAX_FILE_SIZE  (1ull << 44)

/* Bytes dropped past the output limit before the run is ended as a flood. */
#define FLOOD_BYTES (64ull << 20)

/* Inodes the island's writable file system may have, per MiB of its size. */
#define INODES_PER_MIB 256ull
#define INODES_MIN     1024ull
#define INODES_MAX     (1ull << 31) /* ext4 counts them in 32 bits */

#define CODE_MAX_BYTES     (16ull << 20) /* -c, -, a script */
#define ENV_FILE_MAX_BYTES (1ull << 20)
#define SETTINGS_MAX_BYTES (1ull << 20)
#define FILES_OUT_MAX      10000u        /* files that --get brings out */
#define FILES_OUT_BYTES    (1ull << 40)  /* with their holes */
#define FILES_JSON_BYTES   (64ull << 20) /* and into a result */
#define TREE_DEPTH_MAX     64            /* directories deep, in and out */
#define REQUEST_MAX_BYTES  (96ull << 20) /* a JSON body, with files in base64 */
