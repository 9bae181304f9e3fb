/*
 * changes.h: what was changed in a workspace that is an overlay, as a list.
 */
#pragma once

#include "core/error.h"
#include "engine/agent_wire.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json;

#define CHANGES_MAX 100000

struct change {
	char *path;               /* below the workspace */
	char *target;             /* of a symlink; "" else */
	enum agent_change change; /* created, modified, deleted */
	enum agent_type type;
	unsigned mode; /* permissions alone */
	uint64_t size;
	bool chosen; /* to come back */
};

struct changes {
	struct change *items; /* a directory before what is in it */
	size_t len;
	size_t left_out; /* whose names are none that can be had here */
};

void changes_done(struct changes *c);

/*
 * Adds one. Paths that are no plain names, one below the other, and what is neither file,
 * directory nor symlink, are left out and counted.
 */
int changes_add(struct changes *c, const struct change *item, struct cay_error *err);

/* The daemon's: of its answer. */
int changes_read(struct changes *c, const struct json *answer, struct cay_error *err);

/* Says on stderr what was left out. */
void changes_say_left_out(const struct changes *c);

/* A line for each. */
int changes_print(const struct changes *c, int fd, struct cay_error *err);

/*
 * Chooses the paths, with all below them, and the new directories on the way there; without
 * any: all. A path at which nothing was changed is CAY_E_NOT_FOUND.
 */
int changes_choose(struct changes *c, const char *const *paths, size_t n, struct cay_error *err);
