/*
 * child.h: the processes that touch what strangers made. Each is forked for one piece of work,
 * has the fds it needs and no others, and is confined before it looks at a byte:
 *
 * - as root it is in a user namespace whose 0 to 65535 are IMAGE_IDS: "root" over what is in the
 *   store, nobody outside; without root it is its user;
 * - no program can be executed, no network had, no process be seen or signalled (seccomp);
 * - Landlock leaves it the trees at hand, where the kernel has it;
 * - it ends when its parent does.
 *
 * It tells by a pipe: progress, and at its end a result or an error. The parent believes the form
 * of that, and not more than the work needs.
 */
#pragma once

#include "base/buf.h"
#include "core/error.h"
#include "image/parts.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define CHILD_RESULT_MAX (1u << 20)
#define CHILD_FDS_MAX    (IMAGE_LAYERS_MAX + 4)

struct progress;

enum child_kind {
	CHILD_READER, /* reads one fd and writes another; opens nothing */
	CHILD_WRITER, /* makes files in its trees */
	CHILD_MERGER, /* the same, and can make one of them its root */
	CHILD_OPEN,   /* not confined: reads its caller's own files, and understands none */
};

struct child {
	pid_t pid; /* 0: none */
	int out;   /* what it tells; the parent's end */
};

#define CHILD_NONE ((struct child){.out = -1})

struct child_job {
	enum child_kind kind;
	bool one_id;
	const int *fds; /* all it has, beside stderr */
	size_t n_fds;
	const int *trees; /* of those, directories that it may write in */
	size_t n_trees;
	/* 0: result is what is told; -1: err is. tell is for child_progress(). */
	int (*run)(void *ctx, int tell, struct buf *result, struct cay_error *err);
	void *ctx;
};

int child_start(struct child *c, const struct child_job *job, struct cay_error *err);

/* From within run. */
void child_progress(int tell, uint64_t done);

/*
 * Waits for its end. on_progress may be NULL. -1: its error, or what became of it.
 * result may be NULL.
 */
int child_wait(struct child *c, void (*on_progress)(void *ctx, uint64_t done), void *ctx,
	       struct buf *result, struct cay_error *err);

/* Ends it, if it still is there. */
void child_stop(struct child *c);
