/*
 * drain.h: reads and forgets what comes from an fd until its end: what a command left
 * running in the background must not find its output closed.
 */
#pragma once

struct loop;
struct drains;

/* The drains of one loop; at most this many fds, past which the oldest is closed. */
#define DRAINS_MAX 1024

struct drains *drains_new(struct loop *loop);
void drains_free(struct drains *d);

/* Takes the fd over, which does not block. */
void drain(struct drains *d, int fd);
