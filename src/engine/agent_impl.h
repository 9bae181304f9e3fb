/*
 * agent_impl.h: what the agent's files share. Functions return 0, or -1 with err
 * filled, which agent_serve() sends; those of agent_io.c fail where the client has
 * gone, and then nobody hears of it.
 */
#pragma once

#include "core/error.h"
#include "engine/agent_wire.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

struct agent {
	int in, out;
	int base;   /* O_PATH: where relative paths begin */
	int layers; /* of an overlay; or -1 */
	struct agent_request ask;
	struct agent_end end; /* what RECORD_END will say */
	struct stat self;     /* the program that we are: /proc/self/exe leads out of the island */
	char path[AGENT_PATH_MAX + 1];
	char arg[AGENT_ARG_MAX + 1];
	char chunk[AGENT_CHUNK];
};

/* agent_io.c: records, and what all operations do with paths. */

int agent_read_request(struct agent *a, struct cay_error *err);

/* The next record, its bytes in a->chunk. */
int agent_receive(struct agent *a, struct agent_record *ret, struct cay_error *err);

int agent_send(struct agent *a, enum agent_record_kind kind, const void *head, size_t head_len,
	       const void *tail, size_t tail_len, struct cay_error *err);

/* RECORD_ENTRY of what fstat() said; path and target may be NULL. */
int agent_send_entry(struct agent *a, const struct stat *st, const char *path, const char *target,
		     unsigned glob, struct cay_error *err);

/* The same of what the layer over the workspace has changed. */
int agent_send_change(struct agent *a, const struct stat *st, const char *path, const char *target,
		      enum agent_change change, struct cay_error *err);

/* RECORD_ENTRY of name in dir, without a path. */
int agent_send_stat(struct agent *a, int dir, const char *name, int flags, struct cay_error *err);

/* RECORD_DATA of a file, from there on, up to so many bytes or its end. */
int agent_send_bytes(struct agent *a, int fd, uint64_t at, uint64_t length, struct cay_error *err);

/* "what path: strerror", with the code that goes with it and the limit that was reached. */
int agent_fail(struct cay_error *err, int sys_errno, const char *what, const char *path);

/* A path as its directory, opened (O_PATH), and the name in it: never "", "." and "..". */
int agent_open_parent(struct agent *a, char *path, bool make, int *ret_dir, const char **ret_name,
		      struct cay_error *err);

/* mkdir -p from the base on; the last one with the mode. */
int agent_make_dirs(struct agent *a, const char *path, unsigned mode, struct cay_error *err);

/* Opens a regular file for reading, without waiting for anything. */
int agent_open_file(struct agent *a, int dir, const char *name, int flags, struct stat *ret);

/* The same in the layer over the workspace: a->path there, by no link. */
int agent_open_layered(struct agent *a, struct stat *ret);

/* Whether it is one name: no slash, and none of "", "." and "..". */
bool agent_is_name(const char *name, size_t len);

/*
 * agent_draft.c: a file that has no name until it is whole.
 */
struct draft {
	int dir; /* the caller's */
	int fd;
	char temp[32]; /* "": it has none, and is gone when we are */
	unsigned long long written;
};

#define DRAFT_NONE ((struct draft){.dir = -1, .fd = -1})

int draft_open(struct draft *d, int dir, const char *path, struct cay_error *err);
int draft_write(struct draft *d, const void *data, size_t len, const char *path,
		struct cay_error *err);
/* mode: or AGENT_MODE_KEEP; mtime_ns: or -1. */
int draft_commit(struct draft *d, const char *name, unsigned mode, long long mtime_ns,
		 bool overwrite, const char *path, struct cay_error *err);
void draft_done(struct draft *d);

/* A name that nobody else has, for what is only there for a moment. */
void draft_name(char name[32]);

/* The operations. */
int agent_do_read(struct agent *a, struct cay_error *err);
int agent_do_write(struct agent *a, struct cay_error *err);
int agent_do_list(struct agent *a, struct cay_error *err);
int agent_do_stat(struct agent *a, struct cay_error *err);
int agent_do_mkdir(struct agent *a, struct cay_error *err);
int agent_do_move(struct agent *a, struct cay_error *err);
int agent_do_remove(struct agent *a, struct cay_error *err);
int agent_do_tree_out(struct agent *a, struct cay_error *err);
int agent_do_tree_in(struct agent *a, struct cay_error *err);
int agent_do_watch(struct agent *a, struct cay_error *err);
int agent_do_diff(struct agent *a, struct cay_error *err);
