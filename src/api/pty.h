/*
 * pty.h: the master of a sandbox's terminal, over the loop: what the program prints
 * comes by output, what is typed is kept until the program takes it. Nothing here
 * waits. The terminal is the island's: of its master nothing is believed but that
 * the kernel says it is one.
 */
#pragma once

#include "base/buf.h"
#include "base/loop.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/ioctl.h>

/* What is typed ahead: from PTY_INPUT_HIGH on stop until room(). */
#define PTY_INPUT_HIGH ((size_t)64 << 10)
#define PTY_INPUT_MAX  ((size_t)4 << 20)

#define PTY_SIDE_MAX 1000 /* columns or rows */

struct pty {
	/* The caller's, set before pty_init(). None may free the struct but over. */
	struct loop *loop;
	void *ctx;
	void (*output)(void *ctx, const char *data, size_t len);
	void (*room)(void *ctx); /* after there was none */
	void (*over)(void *ctx); /* after pty_last(): nothing more comes */
	/* Ours. */
	struct loop_fd master; /* fd -1: not there, or not any more */
	struct loop_timer again;
	struct winsize size;
	struct buf input;
	size_t written; /* of input */
	size_t left;    /* bytes that are still taken after pty_last() */
	bool full, stopped, hung_up, last;
};

void pty_init(struct pty *p);
void pty_done(struct pty *p);

/* The master is here; it is taken over, also on failure. 0, or -1 for what is no such thing. */
int pty_take(struct pty *p, int fd);

/* Hangs up: the program gets SIGHUP. */
void pty_close(struct pty *p);

/* How many bytes wait for the program, these included; before pty_take() all of them do. */
size_t pty_write(struct pty *p, const void *data, size_t len);

/* No output until it is let go on; the program waits when the terminal has no more room. */
void pty_stop(struct pty *p, bool stop);

/* From 1 to PTY_SIDE_MAX each. */
void pty_resize(struct pty *p, unsigned columns, unsigned rows);

/* SIGINT, SIGQUIT or SIGTSTP to the programs in the foreground. 0 or -errno. */
int pty_signal(const struct pty *p, int signal);

/* The program has ended: what it left is passed on, then over() is called; maybe at once. */
void pty_last(struct pty *p);
