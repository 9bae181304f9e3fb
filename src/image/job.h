/*
 * job.h: a process for work in the store that takes a while, so that several go on at once and a
 * pull can be told to stop at any moment. It opens the store for itself: locks are a process's own.
 */
#pragma once

#include "core/error.h"
#include "image/store.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct progress;

/* What is done there. 0, or -1 and err. */
typedef int job_fn(struct store *store, void *ctx, const struct progress *progress,
		   struct cay_error *err);

struct job_report {
	uint64_t done;
	bool ended;
	bool failed; /* err says how */
	struct cay_error err;
};

struct job {
	pid_t pid; /* 0: none */
	int reports;
};

#define JOB_NONE ((struct job){.reports = -1})

/* ctx is borrowed until the fork; what it leads to is there in the process. */
int job_start(struct job *ret, const char *store_dir, uint64_t budget_bytes, job_fn *fn, void *ctx,
	      struct cay_error *err);

/* Waits for the next; after one that says ended, job_stop(). */
void job_report(const struct job *j, struct job_report *ret);

/* Kills it and what it started, if that is still there, and sees that subreapers' are gone. */
void job_stop(struct job *j);
