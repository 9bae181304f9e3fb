#include "egress/syn.h"

#include "base/attr.h"
#include "egress/bytes.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_log.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <string.h>

#define ATTR_HEAD sizeof(struct nlattr)

/* Where IP and TCP have what, in bytes. */
#define IP_MIN       20
#define IP_TOTAL     2
#define IP_FRAGMENT  6
#define IP_HOPS      8
#define IP_PROTOCOL  9
#define IP_FROM      12
#define IP_TO        16
#define TCP_MIN      20
#define TCP_SEQ      4
#define TCP_ACK      8
#define TCP_OFFSET   12
#define TCP_FLAGS    13
#define TCP_CHECKSUM 16
#define UDP_MIN      8

#define FLAG_SYN 0x02
#define FLAG_RST 0x04
#define FLAG_ACK 0x10

#define ICMP_MIN         8
#define ICMP_UNREACHABLE 3
#define ICMP_QUOTED      8 /* bytes of TCP that are sent back */

/* The next message or attribute of a list: its header says how long it is. false: the end. */
static bool step(const uint8_t **at, size_t *left, size_t len, size_t head)
{
	size_t whole = size_min(NLMSG_ALIGN(len), *left);

	if (len < head || len > *left)
		return false;
	*at += whole;
	*left -= whole;
	return true;
}

static bool find_payload(const uint8_t *at, size_t left, const uint8_t **ret, size_t *ret_len)
{
	while (left >= ATTR_HEAD) {
		const uint8_t *attr = at;
		struct nlattr head;

		memcpy(&head, at, sizeof(head));
		if (!step(&at, &left, head.nla_len, ATTR_HEAD))
			return false;
		if ((head.nla_type & NLA_TYPE_MASK) == NFULA_PAYLOAD) {
			*ret = attr + ATTR_HEAD;
			*ret_len = head.nla_len - ATTR_HEAD;
			return true;
		}
	}
	return false;
}

bool nflog_next(struct nflog *n, const uint8_t **ret_packet, size_t *ret_len)
{
	const size_t before = NLMSG_HDRLEN + NLMSG_ALIGN(sizeof(struct nfgenmsg));

	while (n->len >= NLMSG_HDRLEN) {
		const uint8_t *message = n->at;
		struct nlmsghdr head;

		memcpy(&head, n->at, sizeof(head));
		if (!step(&n->at, &n->len, head.nlmsg_len, NLMSG_HDRLEN))
			break;
		if (head.nlmsg_type == (NFNL_SUBSYS_ULOG << 8 | NFULNL_MSG_PACKET) &&
		    head.nlmsg_len >= before &&
		    find_payload(message + before, head.nlmsg_len - before, ret_packet, ret_len))
			return true;
	}
	n->len = 0;
	return false;
}

static int parse_tcp(const uint8_t *tcp, size_t len, struct syn *ret)
{
	size_t offset;

	if (len < TCP_MIN || (tcp[TCP_FLAGS] & (FLAG_SYN | FLAG_ACK)) != FLAG_SYN)
		return -EINVAL;
	offset = (size_t)(tcp[TCP_OFFSET] >> 4) * 4;
	if (offset < TCP_MIN || offset > len)
		return -EINVAL;
	memcpy(&ret->seq, tcp + TCP_SEQ, sizeof(ret->seq));
	ret->len = ret->ip_len + offset;
	return 0;
}

int syn_parse(const uint8_t *packet, size_t len, struct syn *ret)
{
	*ret = (struct syn){0};
	if (len < IP_MIN || packet[0] >> 4 != 4)
		return -EINVAL;
	ret->ip_len = (size_t)(packet[0] & 0xf) * 4;
	/* Any but the first fragment has no ports. */
	if (ret->ip_len < IP_MIN || len < ret->ip_len + UDP_MIN ||
	    (bytes_get16(packet + IP_FRAGMENT) & 0x1fff) != 0)
		return -EINVAL;
	ret->udp = packet[IP_PROTOCOL] == IPPROTO_UDP;
	ret->len = ret->ip_len + UDP_MIN;
	if (!ret->udp && (packet[IP_PROTOCOL] != IPPROTO_TCP ||
			  parse_tcp(packet + ret->ip_len, len - ret->ip_len, ret) < 0))
		return -EINVAL;
	memcpy(ret->head, packet, ret->len);
	memcpy(&ret->tuple.from, packet + IP_FROM, 4);
	memcpy(&ret->tuple.to, packet + IP_TO, 4);
	memcpy(&ret->tuple.from_port, packet + ret->ip_len, 2);
	memcpy(&ret->tuple.to_port, packet + ret->ip_len + 2, 2);
	return 0;
}

static uint32_t add_up(uint32_t sum, const uint8_t *data, size_t len)
{
	for (size_t n = 0; n + 1 < len; n += 2)
		sum += bytes_get16(data + n);
	return len % 2 ? sum + (uint32_t)(data[len - 1] << 8) : sum;
}

static uint16_t fold(uint32_t sum)
{
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)~sum;
}

/* Over the addresses in front of it as well. */
static void set_tcp_checksum(uint8_t *packet, size_t ip_len, size_t len)
{
	uint8_t *tcp = packet + ip_len;
	uint32_t sum = IPPROTO_TCP + (uint32_t)(len - ip_len);

	bytes_put16(tcp + TCP_CHECKSUM, 0);
	sum = add_up(sum, packet + IP_FROM, 8);
	bytes_put16(tcp + TCP_CHECKSUM, fold(add_up(sum, tcp, len - ip_len)));
}

size_t syn_again(const struct syn *s, uint8_t ret[SYN_ANSWER_MAX])
{
	memcpy(ret, s->head, s->len);
	bytes_put16(ret + IP_TOTAL, (unsigned)s->len);
	set_tcp_checksum(ret, s->ip_len, s->len);
	return s->len;
}

/* IP's header for a packet the other way. */
static void put_ip(const struct syn *s, uint8_t protocol, size_t len, uint8_t *ret)
{
	memset(ret, 0, len);
	ret[0] = 0x45;
	bytes_put16(ret + IP_TOTAL, (unsigned)len);
	ret[IP_HOPS] = 64;
	ret[IP_PROTOCOL] = protocol;
	memcpy(ret + IP_FROM, &s->tuple.to, 4);
	memcpy(ret + IP_TO, &s->tuple.from, 4);
}

size_t syn_refused(const struct syn *s, uint8_t ret[SYN_ANSWER_MAX])
{
	uint8_t *tcp = ret + IP_MIN;
	uint32_t ack = htonl(ntohl(s->seq) + 1);
	size_t len = IP_MIN + TCP_MIN;

	put_ip(s, IPPROTO_TCP, len, ret);
	memcpy(tcp, &s->tuple.to_port, 2);
	memcpy(tcp + 2, &s->tuple.from_port, 2);
	memcpy(tcp + TCP_ACK, &ack, sizeof(ack));
	tcp[TCP_OFFSET] = TCP_MIN / 4 << 4;
	tcp[TCP_FLAGS] = FLAG_RST | FLAG_ACK;
	set_tcp_checksum(ret, IP_MIN, len);
	return len;
}

size_t syn_unreachable(const struct syn *s, uint8_t code, uint8_t ret[SYN_ANSWER_MAX])
{
	uint8_t *icmp = ret + IP_MIN;
	size_t quoted = s->ip_len + ICMP_QUOTED;
	size_t len = IP_MIN + ICMP_MIN + quoted;

	put_ip(s, IPPROTO_ICMP, len, ret);
	icmp[0] = ICMP_UNREACHABLE;
	icmp[1] = code;
	memcpy(icmp + ICMP_MIN, s->head, quoted);
	bytes_put16(icmp + 2, fold(add_up(0, icmp, ICMP_MIN + quoted)));
	return len;
}
