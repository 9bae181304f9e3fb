/*
 * staging.h: directories of the store in which things are made that have no name yet. A flock on
 * one is held by who works in it, and by the children it has given the fd to; one that nobody
 * holds was left by somebody who was killed, and can be removed.
 */
#pragma once

#include "core/error.h"

struct store;

#define STAGING_NAME_SIZE 96
#define STAGING_TREE      "tree"

struct staging {
	int fd; /* -1: none */
	int parent;
	char name[STAGING_NAME_SIZE];
};

#define STAGING_NONE ((struct staging){.fd = -1, .parent = -1})

/*
 * An empty one. Whoever takes the same name waits until the first has dropped it; NULL: a
 * name of its own.
 */
int staging_take(const struct store *s, const char *name, struct staging *ret,
		 struct cay_error *err);

/* Makes STAGING_TREE in it, the image's root's own. */
int staging_tree(const struct store *s, const struct staging *staging, int *ret_fd,
		 struct cay_error *err);

/* Removes it, with all that is in it. */
void staging_drop(struct staging *s);

/* Removes those that nobody holds. */
void staging_sweep(const struct store *s);
