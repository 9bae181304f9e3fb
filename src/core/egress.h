/*
 * egress.h: what became of an island's ways out: one entry for each name, port and outcome.
 */
#pragma once

#include "core/domain.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How much of the network an island sees, from little to all. */
enum network_mode { NETWORK_NONE, NETWORK_ALLOWLIST, NETWORK_FULL, NETWORK_MODES };

const char *network_mode_name(enum network_mode m);

/* NETWORK_MODES: none is called so. */
enum network_mode network_mode_find(const char *name);

/* Rules of one sandbox, to allow and to block together; of an operator or key, each. */
#define EGRESS_RULES_MAX   1000
#define EGRESS_RULES_BYTES (120u << 10) /* as text, with a sign and a NUL each */

enum egress_verdict { VERDICT_ALLOWED, VERDICT_DENIED, VERDICT_FAILED, VERDICTS };

const char *egress_verdict_name(enum egress_verdict v);

/* Why it was denied or failed. */
enum egress_why {
	WHY_NONE,
	/* denied */
	WHY_NOT_LISTED,   /* not in the allow list */
	WHY_BLOCKED,      /* in the block list */
	WHY_PORT,         /* the name is in the allow list, but not with this port */
	WHY_OPERATOR,     /* not among what the operator allows */
	WHY_LITERAL,      /* an address, where names are allowed */
	WHY_NOT_PUBLIC,   /* the name leads to an address that is not public */
	WHY_NAME_DIFFERS, /* TLS or HTTP names another host than the one connected to */
	WHY_HEAD,         /* what TLS or HTTP begins with is too long to be looked at */
	WHY_PROTOCOL,     /* neither TCP nor a DNS query */
	WHY_NOT_A_NAME,   /* asked for what no host can be called */
	WHY_CONNECTIONS,  /* too many connections at once */
	WHY_BYTES,        /* more bytes than may be moved */
	WHY_NAMES,        /* too many names */
	WHY_LOOKUPS,      /* too many names asked for at once */
	/* failed */
	WHY_NO_SUCH_NAME,
	WHY_NO_ANSWER, /* of the name servers */
	WHY_REFUSED,
	WHY_UNREACHABLE,
	WHY_TIMED_OUT,
	WHY_RESET,
	WHY_LOST, /* whoever carried it is gone */
	WHYS
};

/* "not in the allow list"; "" for WHY_NONE. */
const char *egress_why_text(enum egress_why w);

struct egress_entry {
	char name[DOMAIN_SIZE]; /* or an address, as text */
	uint8_t verdict, why;
	uint16_t port; /* 0: it was asked for by name alone */
	uint16_t pad;
	uint32_t times;
	uint64_t bytes_in, bytes_out; /* to the island, from it */
};

/* More outcomes than these are counted, not listed. */
#define EGRESS_ENTRIES_MAX 100

struct egress_log {
	struct egress_entry *entries;
	size_t n;
	uint64_t unlisted;
};

void egress_log_done(struct egress_log *l);

/* Of one whose carrier is gone: an entry that says so, and is all that is known. */
struct egress_log egress_log_lost(void);

/* Leaves what happened after before was told. */
void egress_log_since(struct egress_log *l, const struct egress_log *before);

struct json;
struct strv;

/* {"allow":[…],"block":[…]}; NULL when memory is out. */
struct json *egress_rules_json(const struct strv *allow, const struct strv *block);

/* [{"name":"…","port":443,"verdict":"allowed","bytes_in":…}, …]; NULL when memory is out. */
struct json *egress_log_json(const struct egress_log *l);
