/*
 * loop.h: one thread that waits for many things: fds by epoll, and times. What is
 * waited for is a struct of the caller's, usually inside a larger one; it must
 * stay where it is until it is removed. Anything may be added, changed or removed
 * from inside a callback, also what is about to be called in the same round.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct loop;

struct loop_fd {
	int fd; /* stays the caller's to close, after loop_remove() */
	/* events: EPOLLIN and so on; EPOLLERR and EPOLLHUP come unasked. */
	void (*ready)(struct loop_fd *f, uint32_t events);
	void *ctx; /* the caller's */
	/* The loop's own. */
	bool added;
	uint32_t events;
};

struct loop_timer {
	void (*fire)(struct loop_timer *t); /* once; may be set again inside */
	void *ctx;
	/* The loop's own. */
	uint64_t at_ns;
	size_t place; /* in the heap, from 1; 0: not set */
};

/* NULL and errno on failure. */
struct loop *loop_new(void);
void loop_free(struct loop *l);

/* 0 or -errno. */
int loop_add(struct loop *l, struct loop_fd *f, uint32_t events);
int loop_change(struct loop *l, struct loop_fd *f, uint32_t events);
/* Before its fd is closed. Nothing happens where it was not added. */
void loop_remove(struct loop *l, struct loop_fd *f);

/* Fires at a time of clock_now_ns(); a timer that is set already moves. 0 or -ENOMEM. */
int loop_at(struct loop *l, struct loop_timer *t, uint64_t at_ns);
int loop_after(struct loop *l, struct loop_timer *t, uint64_t ms);
void loop_cancel(struct loop *l, struct loop_timer *t);

/* Waits and calls, until loop_stop(). 0 or -errno. */
int loop_run(struct loop *l);
void loop_stop(struct loop *l);

/*
 * A loop inside another: its epoll is one fd of the other's, which on it calls loop_turn(): one
 * round, without waiting, of at most max calls. However much goes on inside, the others have
 * their turns. Timers are the outer one's.
 */
#define LOOP_ROUND 64

int loop_epoll(const struct loop *l);
void loop_turn(struct loop *l, int max);
