/*
 * serve_children.h: the daemon's processes, as a table: what each is and how it ends. Most are
 * of no use without the others, so when one ends, all do, and all are started again.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct serve_child {
	const char *name; /* for the log */
	/* Its whole life: never returns. */
	void (*be)(void *ctx, pid_t parent);
	/*
	 * It is the one that is told to end. The others hear of it when their sockets close,
	 * and end by themselves, in order.
	 */
	bool leads;
	/* The others can do without it for a while: it is started again alone. */
	bool alone;
	pid_t pid; /* 0: it is not there */
};

/* Starts all of them, in their order; 0 or -errno, and then those before may be there. */
int serve_children_start(struct serve_child *list, size_t n, void *ctx);

/* Whether one has ended with which all are to end. */
bool serve_children_ended(const struct serve_child *list, size_t n);

/* Starts those again that ended alone: how many; or -errno. */
int serve_children_revive(struct serve_child *list, size_t n, void *ctx);

/* A signal to those that lead. */
void serve_children_signal(const struct serve_child *list, size_t n, int signal);

/* Ends one that is started again alone. */
void serve_children_kill(const struct serve_child *list, size_t n, const char *name);

/* Ends all of them, the last first, and waits for it. An end that was not our doing is logged. */
void serve_children_stop(struct serve_child *list, size_t n);
