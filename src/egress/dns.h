/*
 * dns.h: questions of an island's programs, and answers to them. Pure.
 */
#pragma once

#include "core/domain.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum dns_code {
	DNS_OK,
	DNS_FORMAT,  /* FORMERR */
	DNS_FAILED,  /* SERVFAIL */
	DNS_NO_NAME, /* NXDOMAIN */
	DNS_UNKNOWN, /* NOTIMP */
	DNS_REFUSED,
};

#define DNS_TYPE_A    1
#define DNS_TYPE_AAAA 28

#define DNS_HEAD         12
#define DNS_QUESTION_MAX (255 + 4)
#define DNS_QUERY_MAX    1232 /* longer ones are not read */
#define DNS_ANSWER_MAX   (DNS_HEAD + DNS_QUESTION_MAX + 16)

/* How long programs keep an answer, in seconds: the address stays the name's for good. */
#define DNS_TTL 60

struct dns_query {
	uint8_t head[4];    /* number and flags, as they were asked */
	enum dns_code code; /* other than OK: what to answer at once */
	uint16_t type;
	bool is_name;           /* one that a host can have */
	char name[DOMAIN_SIZE]; /* normalised; or, where it is none, something to show */
	size_t question_len;    /* 0: it has none that could be said again */
	uint8_t question[DNS_QUESTION_MAX];
};

/* 0, or -EBADMSG: to be ignored, as it is no question at all. */
int dns_parse(const uint8_t *data, size_t len, struct dns_query *ret);

/* address: four bytes as on the wire, or NULL: no records. Returns the length. */
size_t dns_answer(const struct dns_query *q, enum dns_code code, const uint8_t *address,
		  uint8_t ret[DNS_ANSWER_MAX]);
