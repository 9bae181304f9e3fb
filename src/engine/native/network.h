/*
 * network.h: the island's network: loopback, and nothing else; or wired, so that cay-egress
 * carries what leaves it.
 *
 * To make a network takes a third of a set-up. Where the launcher would only wait,
 * a process of its own makes it, in the island's user namespace, while init lays
 * out the root; init enters it as one of its last steps.
 */
#pragma once

#include "core/error.h"

struct island;

/* Where an island's network comes from. */
enum network_way {
	NETWORK_MADE,   /* init makes it: on an island made ahead, for which nobody waits */
	NETWORK_SENT,   /* network_provide() */
	NETWORK_POOLED, /* the launcher was in it at the clone */
};

/* For the calling process, with loopback up; wires: wired, and these are the caller's; or NULL. */
int network_make(int *wires, struct cay_error *err);

/* One that nobody is in: its fd, or -1. own: the calling process's, which it comes back to. */
int network_make_apart(int own);

/*
 * The launcher's: makes a network in an island's user namespace, an fd or why there
 * is none (-errno), and sends it there by control. wires: it is wired, and these are the
 * caller's (wires.h); or NULL.
 */
int network_provide(int user_namespace, int control, int *wires, struct cay_error *err);

/* The step. */
int network_enter(struct island *i, struct cay_error *err);
