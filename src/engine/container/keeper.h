/*
 * keeper.h: a process for each container: makes it, talks to its PID 1 (wire.h), keeps its
 * deadlines, removes it. To whoever asked it speaks engine/service.h, about the one island that the
 * first request is for.
 *
 * Theory of operation
 *
 *   asker ──service.h──> keeper ──Engine API──> dockerd, podman
 *                          └──── the attached stream ────> PID 1: cay-guest ── commands
 *
 * Until the container runs, calls of the API block, with deadlines, and are broken off when the
 * asker says something or is gone; from there on all is one loop. Whoever of the three dies first,
 * no program of the user's lives on: without its stream PID 1 ends, and with it all the others.
 * What then is left is a stopped container with our label, which the next start removes.
 */
#pragma once

#include "engine/container/docker.h"
#include "engine/service.h"
#include "policy/mounts.h"

struct docker_pull;

struct keeper_config {
	struct docker_place place;
	const struct mount_rules *rules;
	const char *owner;   /* CONTAINER_OWNER's value (sweep.h) */
	const char *runtime; /* NULL: the engine's */
	bool may_pull;
	/* How far a pull is, and NULL when it is there. NULL: nobody looks. */
	void (*pulled)(void *ctx, const struct docker_pull *p);
	void *ctx;
};

/* Serves sock until its island has ended, or the asker has; returns what to exit with. */
int keeper_serve(int sock, const struct keeper_config *config);
