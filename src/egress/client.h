/*
 * client.h: a cay-egress for one run, in the caller's time: for `cay run` without a daemon.
 */
#pragma once

#include "core/egress.h"
#include "core/error.h"
#include "egress/wire.h"
#include "settings/settings.h"

#include <sys/types.h>

struct egress_client {
	pid_t pid; /* 0: there is none */
	int channel;
};

#define EGRESS_CLIENT_NONE ((struct egress_client){.channel = -1})

/* Its start takes a while: nobody waits for it here. */
int egress_client_start(struct egress_client *c, const struct settings *s, struct cay_error *err);

/* Hands it an island's network, and waits until it is there. The fds stay the caller's. */
int egress_client_open(struct egress_client *c, const struct egress_rules *r,
		       const int wires[EGRESS_FDS], struct cay_error *err);

/* Ends it, and says what it did. Where it is gone already, that is an entry. */
void egress_client_end(struct egress_client *c, struct egress_log *ret);
