/*
 * config.h: a plan as the configuration of a container (POST /containers/create). Pure.
 */
#pragma once

#include "core/error.h"
#include "policy/plan.h"

#include <inttypes.h>
#include <stdbool.h>

struct json;

/* Where PID 1's program is: a name that no image can have made something else of. */
#define CONTAINER_GUEST      "/cay-guest-%016" PRIx64
#define CONTAINER_GUEST_SIZE sizeof("/cay-guest-0123456789abcdef")

struct container_config {
	const struct plan *plan;
	const char *image;                   /* as the engine knows it */
	const char *guest;                   /* PID 1's program, on the host */
	char guest_at[CONTAINER_GUEST_SIZE]; /* and in there */
	const char *owner;
	const char *runtime; /* NULL: the engine's default */
	/* Of each user: engines would raise it, and some may not. 0: not said. */
	uint64_t user_processes;
	bool podman;                /* which knows no owner of a tmpfs */
	const struct json *volumes; /* what the image would have written elsewhere; NULL */
	const char *sources[PLAN_MOUNTS_MAX]; /* real paths, as they were judged */
};

/* How `disk` is split among what can be written to; together no more. */
struct container_disk {
	uint64_t tmp_bytes, workspace_bytes, shm_bytes;
};

void container_disk_split(const struct plan *p, struct container_disk *ret);

/* The caller's. CAY_E_UNSUPPORTED: what no container has. */
struct json *container_config_json(const struct container_config *c, struct cay_error *err);
