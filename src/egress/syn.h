/*
 * syn.h: packets of an island's network: the copies that the kernel hands out of what it
 * held back, and what is sent into the network in answer. Pure.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The ends of a connection, all as on the wire; no padding, so that memcmp() orders them. */
struct tuple {
	uint32_t from, to;
	uint16_t from_port, to_port;
};

/* A datagram of NFLOG's, of which packets are taken one by one. */
struct nflog {
	const uint8_t *at;
	size_t len;
};

/* false: there are no more; also where the rest makes no sense. */
bool nflog_next(struct nflog *n, const uint8_t **ret_packet, size_t *ret_len);

#define SYN_HEAD_MAX 120 /* IP's and TCP's headers with all their options */

struct syn {
	struct tuple tuple;
	bool udp; /* no SYN, but a first packet all the same */
	uint32_t seq;
	size_t ip_len, len;
	uint8_t head[SYN_HEAD_MAX]; /* without data, if it had any */
};

/* 0, or -EINVAL: neither UDP nor a TCP SYN of IPv4. */
int syn_parse(const uint8_t *packet, size_t len, struct syn *ret);

#define SYN_ANSWER_MAX 128

/*
 * Packets to send, of a length that is returned. TCP only. IP's own checksum is the kernel's
 * to fill in, as it does for raw sockets.
 */
size_t syn_again(const struct syn *s, uint8_t ret[SYN_ANSWER_MAX]);
size_t syn_refused(const struct syn *s, uint8_t ret[SYN_ANSWER_MAX]);
/* code: ICMP_HOST_UNREACH, ICMP_PKT_FILTERED. */
size_t syn_unreachable(const struct syn *s, uint8_t code, uint8_t ret[SYN_ANSWER_MAX]);
