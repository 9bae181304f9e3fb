/*
 * agent_wire.h: what passes between the files agent and its client. Both are of
 * the same build, so there are no versions.
 *
 * The client sends a request, its path and its argument; then, for what brings
 * bytes in, records up to one of RECORD_END. The agent answers with records, the
 * last of which is RECORD_END or RECORD_ERROR: a stream that ends without one of
 * them was cut off. Either side ends it all by closing.
 *
 *	op        from the client          from the agent
 *	read                               ENTRY DATA*
 *	write     DATA*                    ENTRY
 *	list                               ENTRY*
 *	stat                               ENTRY
 *	mkdir                              ENTRY
 *	move                               ENTRY
 *	remove
 *	tree out                           (ENTRY DATA*)*
 *	tree in   (ENTRY DATA*)*
 *	watch                              ENTRY EVENT*, until the client closes
 *	diff                               ENTRY*
 *
 * The client believes nothing: user code runs as the agent's user.
 */
#pragma once

#include <stdint.h>

#define AGENT_CHUNK     65536u /* the longest record */
#define AGENT_PATH_MAX  4095u
#define AGENT_ARG_MAX   65536u
#define AGENT_LIST_MAX  10000u /* entries of one list; there is a cursor for more */
#define AGENT_GLOBS_MAX 256u

#define AGENT_TREE_MAX 1000000u /* entries of a tree, in or out */
/* A file that says it has no size (of /proc) is read to its end, but not for ever. */
#define AGENT_SIZELESS_MAX (64ull << 20)

/* For a mode that was not given: what the file had, or 0644, or 0755. */
#define AGENT_MODE_KEEP UINT32_MAX
/* For the size of a file of tree in: it has what comes. */
#define AGENT_SIZE_UNKNOWN UINT64_MAX
/* For a length: up to the end. */
#define AGENT_TO_END UINT64_MAX

enum agent_op {
	AGENT_READ = 1,
	AGENT_WRITE,
	AGENT_LIST,
	AGENT_STAT,
	AGENT_MKDIR,
	AGENT_MOVE,
	AGENT_REMOVE,
	AGENT_TREE_OUT,
	AGENT_TREE_IN,
	AGENT_WATCH,
	AGENT_DIFF, /* what the layer over the workspace has changed */
	AGENT_OPS
};

enum agent_flag {
	AGENT_PARENTS = 1 << 0,   /* write, mkdir, move: make the directories on the way */
	AGENT_OVERWRITE = 1 << 1, /* write, move: what is there may go */
	AGENT_APPEND = 1 << 2,    /* write */
	AGENT_RECURSIVE = 1 << 3, /* remove, watch */
	AGENT_FOLLOW = 1 << 4,    /* stat: of what a symlink leads to */
	AGENT_GET = 1 << 5,       /* tree out: files alone, by the globs in arg, as files_get() */
	AGENT_LAYER = 1 << 6,     /* read: what the layer over the workspace has, by no link */
};
#define AGENT_FLAGS 0x7fu

/* Followed by the path and the argument, without NULs behind them. */
struct agent_request {
	uint32_t op;
	uint32_t flags;
	uint32_t mode;
	uint32_t depth; /* list: 1 is the directory alone */
	uint32_t count; /* list: entries at most */
	uint32_t path_len;
	uint32_t arg_len; /* move: where to; list: the cursor; tree out: globs with a NUL between */
	uint32_t pad;
	/* read; tree out by globs: what "*" stands for was changed after this time, in ns since
	 * 1970 */
	uint64_t offset;
	uint64_t length; /* read; tree out: bytes in all at most */
};

enum agent_record_kind {
	RECORD_ENTRY = 1,
	RECORD_DATA,
	RECORD_EVENT,
	RECORD_END,
	RECORD_ERROR, /* a struct cay_error */
	RECORD_KINDS
};

struct agent_record {
	uint32_t kind;
	uint32_t len; /* of what follows */
};

enum agent_type {
	AGENT_FILE = 1,
	AGENT_DIR,
	AGENT_LINK,
	AGENT_HARD_LINK, /* tree in: to what came before it, by its path below the same top */
	AGENT_FIFO,
	AGENT_SOCKET,
	AGENT_DEVICE,
	AGENT_TYPES
};

/* Followed by the path (below the top; none where it is that of the request) and a link's target.
 */
struct agent_entry {
	uint32_t type;
	uint32_t mode; /* permissions, with set-id and sticky bits */
	uint32_t path_len;
	uint32_t link_len;
	uint32_t glob;   /* tree out: which of the globs it was */
	uint32_t change; /* diff: enum agent_change, one of the first three */
	uint64_t size;
	int64_t mtime_ns;
};

enum agent_change {
	AGENT_CREATED = 1,
	AGENT_MODIFIED,
	AGENT_DELETED,
	AGENT_MOVED,
	AGENT_LOST,
	AGENT_CHANGES
};

/* Followed by the path, and of a move by the new one. */
struct agent_event {
	uint32_t change; /* AGENT_LOST: there were more than could be kept; look anew */
	uint32_t is_dir;
	uint32_t path_len;
	uint32_t to_len;
};

struct agent_end {
	uint64_t bytes;     /* of files, this way or that */
	uint32_t entries;   /* that were sent, made or removed; write, mkdir: 1 if it was new */
	uint32_t skipped;   /* tree out, list: could not be read, or are no files */
	uint32_t truncated; /* list: there is more behind the last entry */
	uint32_t pad;
};
