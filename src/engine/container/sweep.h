/*
 * sweep.h: containers whose maker is gone. Each has a label that says who that is: a process, by
 * its number, its start and its pid namespace, so that nobody takes another's number for it. What
 * lacks the label, or was made in another pid namespace, is left alone.
 */
#pragma once

#include "engine/container/docker.h"
#include "settings/settings.h"

#include <stdbool.h>

/* All containers of ours have both labels: the plan's id, and the maker. */
#define CONTAINER_LABEL "cay"
#define CONTAINER_OWNER "cay.owner"

#define SWEEP_OWNER_SIZE 64

/* The calling process. 0 or -errno. */
int sweep_owner(char ret[SWEEP_OWNER_SIZE]);

/* Whether that one is of our pid namespace, and not there any more. Pure but for /proc. */
bool sweep_is_gone(const char *owner);

/* Removes what they left in the engine there; returns how many, or -1. */
int sweep_engine(const struct docker_place *place, struct cay_error *err);

/*
 * The same of all engines that the settings allow and that run: one that systemd would only start
 * because it is asked has nothing of ours that runs. Returns how many.
 */
int sweep_engines(const struct settings *s);
