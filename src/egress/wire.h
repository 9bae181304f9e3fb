/*
 * wire.h: what is said between cay-egress, which carries islands' connections, and whoever has
 * islands made: `cay run`, or the api.
 *
 * One SOCK_SEQPACKET pair. A request is a struct egress_request and, where it has rules, those
 * as text behind it; an answer is a struct egress_answer with entries behind it. Networks go by
 * numbers that the asker chooses, never 0 and never twice.
 *
 *   OPEN    takes on an island's network: EGRESS_FDS fds, as engine/native/network.h makes them.
 *   RULES   new rules: connections that are made from now on obey them, others are ended where
 *           they would not be allowed any more.
 *   REPORT  Answer: REPORT, with all entries so far.
 *   CLOSE   ends all its connections. Answer: CLOSED, with all entries.
 *
 * OPEN and RULES are answered with DONE, or where they can't be with FAILED: then nothing has
 * changed. An answer has the serial of what it answers. HELLO is said once, at the start: whoever
 * hears it again talks to the next process, which knows of no network, and says OPEN again. TOTALS
 * come by themselves, at most once a second. The operator's own rules and limits are known to
 * cay-egress from its settings (EGRESS_FD_SETTINGS); what is said here can only narrow them.
 */
#pragma once

#include "core/egress.h"
#include "core/error.h"
#include "policy/plan.h"

#include <stdint.h>
#include <sys/types.h>

/* What cay-egress is born with, by number. */
enum egress_fd {
	EGRESS_FD_CHANNEL = 3,
	EGRESS_FD_SETTINGS, /* the operator's, as text */
	EGRESS_FD_NEWS,     /* where others of these may come from (base/handover.h); or closed */
	EGRESS_FDS_END,
};

/* The fds of OPEN, in this order. */
enum egress_socket {
	EGRESS_LISTENER, /* TCP, where held connections are let through to */
	EGRESS_DNS,      /* UDP, port 53 of every address */
	EGRESS_SYNS,     /* netlink: a copy of each SYN, which itself is dropped */
	EGRESS_RAW,      /* packets into the island's network */
	EGRESS_FDS
};

enum egress_request_kind { EGRESS_OPEN = 1, EGRESS_RULES, EGRESS_REPORT, EGRESS_CLOSE };

struct egress_request {
	uint32_t kind;
	uint32_t mode; /* enum network_mode; OPEN, RULES */
	uint64_t number;
	uint64_t serial;    /* of the asker's choice: it comes back with the answer */
	char name[ID_SIZE]; /* OPEN: the run's or the sandbox's, for the log */
			    /* OPEN, RULES: "+RULE" and "-RULE", each with a NUL behind it. */
};

#define EGRESS_REQUEST_MAX (128u << 10) /* bytes, with its rules */

_Static_assert(sizeof(struct egress_request) + EGRESS_RULES_BYTES <= EGRESS_REQUEST_MAX,
	       "all rules that a plan can have go with one request");

enum egress_answer_kind {
	ANSWER_HELLO = 1,
	ANSWER_FAILED,
	ANSWER_REPORT,
	ANSWER_CLOSED,
	ANSWER_TOTALS,
	ANSWER_DONE
};

struct egress_totals {
	uint64_t networks, connections; /* now */
	uint64_t allowed, denied, failed;
	uint64_t bytes_in, bytes_out;
};

struct egress_answer {
	uint32_t kind;
	uint32_t n_entries; /* REPORT, CLOSED: behind this */
	uint64_t number;
	uint64_t unlisted;
	uint64_t serial;
	struct egress_totals totals; /* TOTALS */
	struct cay_error error;      /* FAILED */
};

#define EGRESS_ANSWER_MAX \
	(sizeof(struct egress_answer) + EGRESS_ENTRIES_MAX * sizeof(struct egress_entry))

/* name: whose. text: rules as they go behind a request. Both borrowed. */
struct egress_rules {
	const char *name;
	enum network_mode mode;
	const char *text;
	size_t len;
};

/* Those of a plan, of which they borrow. */
struct egress_rules egress_rules_of(const struct plan *p);

/*
 * OPEN or RULES as one packet of EGRESS_REQUEST_MAX bytes at most: its length, or -EMSGSIZE. q's
 * mode and name are the rules'.
 */
ssize_t egress_pack(const struct egress_request *q, const struct egress_rules *r,
		    char ret[EGRESS_REQUEST_MAX]);

/* The entries of REPORT or CLOSED, len bytes that are not trusted. 0, -EBADMSG or -ENOMEM. */
int egress_unpack(const struct egress_answer *a, size_t len, struct egress_log *ret);
