/*
 * pack.h: a directory as a tar, by a process of its own, with our rights and nothing given away:
 * what it reads is its caller's, and nothing in it is understood.
 */
#pragma once

#include "core/error.h"

#include "image/child.h"

struct packing {
	struct child child;
};

#define PACKING_NONE ((struct packing){.child = CHILD_NONE})

/* The tar comes from *ret_fd, the caller's. No link is followed, no other file system entered. */
int pack_start(struct packing *p, const char *dir, int *ret_fd, struct cay_error *err);

/* Waits for it. -1: what it could not read; EPIPE: nobody took it. */
int pack_end(struct packing *p, struct cay_error *err);
