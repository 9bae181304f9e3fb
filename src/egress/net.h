/*
 * net.h: one island's network, as cay-egress sees it: four sockets (wire.h), the rules that it is
 * judged by, what it has used of its limits, and what became of its connections.
 *
 * Each network has a loop of its own inside the process's, so that one that keeps us busy
 * has its turn and no more. Timers are the process's; they fire rarely and do little.
 */
#pragma once

#include "base/loop.h"
#include "egress/journal.h"
#include "egress/names.h"
#include "egress/pipes.h"
#include "egress/rate.h"
#include "egress/relay.h"
#include "egress/syn.h"
#include "egress/verdict.h"
#include "egress/wire.h"
#include "settings/settings.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct conn;
struct asked;
struct net;
struct paused;

TAILQ_HEAD(line_of_conns, paused);
TAILQ_HEAD(line_of_nets, place);

/* A network's place in the line for bytes from one side, of which all have so many together. */
struct place {
	TAILQ_ENTRY(place) line;
	struct net *net; /* NULL: it is not in line */
	size_t share;    /* bytes that it may have before it has to come to the line again */
};

/* What all networks share. */
struct egress {
	struct loop *loop;
	struct settings settings;
	struct operator_rules operator;
	struct resolver *resolver;
	int own; /* own.h */
	struct pipes pipes;
	uint64_t connections_max; /* as the settings say, or as there are fds for */
	struct egress_totals totals;
	struct net *nets;
	struct rate rate[2]; /* by the side that bytes come from */
	struct line_of_nets waiting[2];
	size_t n_waiting[2];
	struct loop_timer share;
};

struct net {
	struct egress *egress;
	struct net *next;
	uint64_t number;
	char name[ID_SIZE]; /* of whose network it is */
	struct loop *loop;
	struct loop_fd turn; /* its loop, in the process's */
	struct loop_fd listener, dns, syns;
	int raw;
	struct policy policy;
	struct names names;
	struct journal journal;
	uint64_t log_ns; /* until when the log has heard enough of it */

	struct conn *conns;
	void *by_tuple; /* the same, as a tree of tsearch(3) */
	uint64_t n_conns;
	struct asked *asked; /* questions that wait */
	size_t n_asked;

	uint64_t bytes;
	struct rate new_conns;
	struct rate rate[2]; /* by the side that bytes come from */
	struct place place[2];
	struct line_of_conns paused[2]; /* that wait for room */
	struct loop_timer again;
	struct loop_timer spent; /* when all bytes are */
};

/* Where settings and loop are there: the rates of all networks together. */
void egress_share_init(struct egress *e);

/* Takes the sockets and the rules when it succeeds. */
int net_open(struct egress *e, const struct egress_request *q, const int fds[EGRESS_FDS],
	     const struct rules *rules, struct cay_error *err);
struct net *net_find(const struct egress *e, uint64_t number);
/* Ends all that goes on in it. */
void net_close(struct net *n);

/* Takes the rules. Connections that they do not allow are ended. */
void net_set_rules(struct net *n, enum network_mode mode, const struct rules *rules);

/* Counts and logs an outcome. The entry, or NULL: there are too many. */
struct egress_entry *net_note(struct net *n, const char *name, uint16_t port, enum egress_why why);

/* A packet into the network, to an address as on the wire. */
void net_send(const struct net *n, const uint8_t *packet, size_t len, uint32_t to);

/* How many bytes from a side may be read now; 0: all its connections are to wait. */
size_t net_room(struct net *n, enum relay_side from);
void net_used(struct net *n, enum relay_side from, size_t bytes);
/* Calls conn_resume() for those that are paused, in a while. */
void net_wait(struct net *n, enum relay_side from);

/* Whether it has moved all the bytes that it may. */
bool net_is_spent(const struct net *n);
