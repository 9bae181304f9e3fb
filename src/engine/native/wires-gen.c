/*
 * wires-gen.c: what the kernel is told to wire an island's network to cay-egress, as bytes: it is
 * the same for every island. Runs at build time: wires-gen OUTPUT
 *
 *	ip address add 198.18.0.2/32 dev lo
 *	ip route add local default dev lo src 198.18.0.2 congctl reno
 *
 *	table ip cay {
 *	    chain out {	type filter hook output priority 0
 *	        ip daddr != 127.0.0.0/8 tcp flags syn / syn,ack mark != 1 log group 1 snaplen 128
 *drop ip daddr != 127.0.0.0/8 udp dport != 53 udp sport != 53 log group 1 snaplen 128
 *	    }
 *	    chain in {	type filter hook prerouting priority -150
 *	        ip daddr != 127.0.0.0/8 meta l4proto tcp tproxy to 127.0.0.1:53
 *	    }
 *	}
 *
 * Every address is local, so nothing leaves. A SYN is only told of; whoever listens sends it
 * again with the mark when the far side has answered, and it reaches the listener as if that
 * were the far side. No connection is tracked and no address translated.
 */
#include "base/attr.h"
#include "engine/native/wires.h"

#include <arpa/inet.h>
#include <libmnl/libmnl.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_log.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOOPBACK_INDEX 1 /* in every network */

#define IP_DADDR  16
#define TCP_FLAGS 13
#define UDP_SPORT 0
#define UDP_DPORT 2
#define SYN       0x02
#define ACK       0x10

#define TABLE "cay"

struct messages {
	char bytes[4096];
	size_t len;
	unsigned answers; /* that are asked for */
};

static struct nlmsghdr *message(struct messages *m, uint16_t type, uint16_t flags)
{
	struct nlmsghdr *h = mnl_nlmsg_put_header(m->bytes + m->len);

	h->nlmsg_type = type;
	h->nlmsg_flags = (uint16_t)(NLM_F_REQUEST | flags);
	h->nlmsg_seq = m->answers + 1;
	m->answers += flags & NLM_F_ACK ? 1 : 0;
	return h;
}

static void end(struct messages *m, const struct nlmsghdr *h)
{
	m->len += MNL_ALIGN(h->nlmsg_len);
	if (m->len > sizeof(m->bytes) - 1024)
		abort();
}

static void route_messages(struct messages *m)
{
	struct nlmsghdr *h = message(m, RTM_NEWADDR, NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL);
	struct ifaddrmsg *a = mnl_nlmsg_put_extra_header(h, sizeof(*a));
	struct nlattr *metrics;
	struct rtmsg *r;

	*a = (struct ifaddrmsg){
		.ifa_family = AF_INET, .ifa_prefixlen = 32, .ifa_index = LOOPBACK_INDEX};
	mnl_attr_put_u32(h, IFA_LOCAL, htonl(WIRES_ISLAND));
	mnl_attr_put_u32(h, IFA_ADDRESS, htonl(WIRES_ISLAND));
	end(m, h);

	h = message(m, RTM_NEWROUTE, NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL);
	r = mnl_nlmsg_put_extra_header(h, sizeof(*r));
	*r = (struct rtmsg){.rtm_family = AF_INET,
			    .rtm_table = RT_TABLE_LOCAL,
			    .rtm_protocol = RTPROT_STATIC,
			    .rtm_scope = RT_SCOPE_HOST,
			    .rtm_type = RTN_LOCAL};
	mnl_attr_put_u32(h, RTA_OIF, LOOPBACK_INDEX);
	mnl_attr_put_u32(h, RTA_PREFSRC, htonl(WIRES_ISLAND));
	metrics = mnl_attr_nest_start(h, RTA_METRICS);
	mnl_attr_put_strz(h, RTAX_CC_ALGO, WIRES_CONGESTION);
	mnl_attr_nest_end(h, metrics);
	end(m, h);
}

static struct nlmsghdr *nf_message(struct messages *m, uint16_t type, uint16_t flags,
				   uint8_t family, uint16_t resource)
{
	struct nlmsghdr *h = message(m, type, flags);
	struct nfgenmsg *g = mnl_nlmsg_put_extra_header(h, sizeof(*g));

	*g = (struct nfgenmsg){
		.nfgen_family = family, .version = NFNETLINK_V0, .res_id = htons(resource)};
	return h;
}

static struct nlmsghdr *table_message(struct messages *m, uint16_t type)
{
	return nf_message(m, (uint16_t)(NFNL_SUBSYS_NFTABLES << 8 | type),
			  NLM_F_ACK | NLM_F_CREATE | NLM_F_APPEND, NFPROTO_IPV4, 0);
}

static void chain(struct messages *m, const char *name, uint32_t hook, int32_t priority)
{
	struct nlmsghdr *h = table_message(m, NFT_MSG_NEWCHAIN);
	struct nlattr *nest;

	mnl_attr_put_strz(h, NFTA_CHAIN_TABLE, TABLE);
	mnl_attr_put_strz(h, NFTA_CHAIN_NAME, name);
	nest = mnl_attr_nest_start(h, NFTA_CHAIN_HOOK);
	mnl_attr_put_u32(h, NFTA_HOOK_HOOKNUM, htonl(hook));
	mnl_attr_put_u32(h, NFTA_HOOK_PRIORITY, htonl((uint32_t)priority));
	mnl_attr_nest_end(h, nest);
	mnl_attr_put_strz(h, NFTA_CHAIN_TYPE, "filter");
	mnl_attr_put_u32(h, NFTA_CHAIN_POLICY, htonl(NF_ACCEPT));
	end(m, h);
}

struct rule {
	struct nlmsghdr *h;
	struct nlattr *list, *element, *data;
};

static struct rule rule(struct messages *m, const char *in_chain)
{
	struct rule r = {.h = table_message(m, NFT_MSG_NEWRULE)};

	mnl_attr_put_strz(r.h, NFTA_RULE_TABLE, TABLE);
	mnl_attr_put_strz(r.h, NFTA_RULE_CHAIN, in_chain);
	r.list = mnl_attr_nest_start(r.h, NFTA_RULE_EXPRESSIONS);
	return r;
}

static void rule_end(struct messages *m, struct rule *r)
{
	mnl_attr_nest_end(r->h, r->list);
	end(m, r->h);
}

static void expression(struct rule *r, const char *name)
{
	r->element = mnl_attr_nest_start(r->h, NFTA_LIST_ELEM);
	mnl_attr_put_strz(r->h, NFTA_EXPR_NAME, name);
	r->data = mnl_attr_nest_start(r->h, NFTA_EXPR_DATA);
}

static void expression_end(struct rule *r)
{
	mnl_attr_nest_end(r->h, r->data);
	mnl_attr_nest_end(r->h, r->element);
}

static void value(struct rule *r, uint16_t type, const void *data, size_t len)
{
	struct nlattr *nest = mnl_attr_nest_start(r->h, type);

	mnl_attr_put(r->h, NFTA_DATA_VALUE, len, data);
	mnl_attr_nest_end(r->h, nest);
}

static void load_payload(struct rule *r, uint32_t base, uint32_t offset, uint32_t len)
{
	expression(r, "payload");
	mnl_attr_put_u32(r->h, NFTA_PAYLOAD_DREG, htonl(NFT_REG_1));
	mnl_attr_put_u32(r->h, NFTA_PAYLOAD_BASE, htonl(base));
	mnl_attr_put_u32(r->h, NFTA_PAYLOAD_OFFSET, htonl(offset));
	mnl_attr_put_u32(r->h, NFTA_PAYLOAD_LEN, htonl(len));
	expression_end(r);
}

static void load_meta(struct rule *r, uint32_t key)
{
	expression(r, "meta");
	mnl_attr_put_u32(r->h, NFTA_META_DREG, htonl(NFT_REG_1));
	mnl_attr_put_u32(r->h, NFTA_META_KEY, htonl(key));
	expression_end(r);
}

static void compare(struct rule *r, uint32_t op, const void *data, size_t len)
{
	expression(r, "cmp");
	mnl_attr_put_u32(r->h, NFTA_CMP_SREG, htonl(NFT_REG_1));
	mnl_attr_put_u32(r->h, NFTA_CMP_OP, htonl(op));
	value(r, NFTA_CMP_DATA, data, len);
	expression_end(r);
}

static void compare_byte(struct rule *r, uint32_t op, uint8_t byte)
{
	compare(r, op, &byte, 1);
}

static void keep_bits(struct rule *r, uint8_t mask)
{
	const uint8_t flip = 0;

	expression(r, "bitwise");
	mnl_attr_put_u32(r->h, NFTA_BITWISE_SREG, htonl(NFT_REG_1));
	mnl_attr_put_u32(r->h, NFTA_BITWISE_DREG, htonl(NFT_REG_1));
	mnl_attr_put_u32(r->h, NFTA_BITWISE_LEN, htonl(1));
	value(r, NFTA_BITWISE_MASK, &mask, 1);
	value(r, NFTA_BITWISE_XOR, &flip, 1);
	expression_end(r);
}

static void set_register(struct rule *r, uint32_t reg, const void *data, size_t len)
{
	expression(r, "immediate");
	mnl_attr_put_u32(r->h, NFTA_IMMEDIATE_DREG, htonl(reg));
	value(r, NFTA_IMMEDIATE_DATA, data, len);
	expression_end(r);
}

static void tell(struct rule *r)
{
	expression(r, "log");
	mnl_attr_put_u16(r->h, NFTA_LOG_GROUP, htons(WIRES_LOG_GROUP));
	mnl_attr_put_u32(r->h, NFTA_LOG_SNAPLEN, htonl(WIRES_LOG_BYTES));
	expression_end(r);
}

static void drop(struct rule *r)
{
	struct nlattr *outer, *inner;

	expression(r, "immediate");
	mnl_attr_put_u32(r->h, NFTA_IMMEDIATE_DREG, htonl(NFT_REG_VERDICT));
	outer = mnl_attr_nest_start(r->h, NFTA_IMMEDIATE_DATA);
	inner = mnl_attr_nest_start(r->h, NFTA_DATA_VERDICT);
	mnl_attr_put_u32(r->h, NFTA_VERDICT_CODE, htonl(NF_DROP));
	mnl_attr_nest_end(r->h, inner);
	mnl_attr_nest_end(r->h, outer);
	expression_end(r);
}

/* Not to the island's own loopback, and of this protocol. */
static struct rule rule_leaving(struct messages *m, const char *in_chain, uint8_t protocol)
{
	struct rule r = rule(m, in_chain);

	load_payload(&r, NFT_PAYLOAD_NETWORK_HEADER, IP_DADDR, 1);
	compare_byte(&r, NFT_CMP_NEQ, IN_LOOPBACKNET);
	load_meta(&r, NFT_META_L4PROTO);
	compare_byte(&r, NFT_CMP_EQ, protocol);
	return r;
}

static void hold_syns(struct messages *m)
{
	const uint32_t mark = WIRES_MARK;
	struct rule r = rule_leaving(m, "out", IPPROTO_TCP);

	load_payload(&r, NFT_PAYLOAD_TRANSPORT_HEADER, TCP_FLAGS, 1);
	keep_bits(&r, SYN | ACK);
	compare_byte(&r, NFT_CMP_EQ, SYN);
	load_meta(&r, NFT_META_MARK);
	compare(&r, NFT_CMP_NEQ, &mark, sizeof(mark));
	tell(&r);
	drop(&r);
	rule_end(m, &r);
}

static void tell_of_datagrams(struct messages *m)
{
	const uint16_t dns = htons(WIRES_PORT);
	struct rule r = rule_leaving(m, "out", IPPROTO_UDP);

	load_payload(&r, NFT_PAYLOAD_TRANSPORT_HEADER, UDP_DPORT, sizeof(dns));
	compare(&r, NFT_CMP_NEQ, &dns, sizeof(dns));
	load_payload(&r, NFT_PAYLOAD_TRANSPORT_HEADER, UDP_SPORT, sizeof(dns));
	compare(&r, NFT_CMP_NEQ, &dns, sizeof(dns)); /* our own answers */
	tell(&r);
	rule_end(m, &r);
}

static void lead_to_listener(struct messages *m)
{
	const uint32_t address = htonl(INADDR_LOOPBACK);
	const uint16_t port = htons(WIRES_PORT);
	struct rule r = rule_leaving(m, "in", IPPROTO_TCP);

	set_register(&r, NFT_REG_1, &address, sizeof(address));
	set_register(&r, NFT_REG_2, &port, sizeof(port));
	expression(&r, "tproxy");
	mnl_attr_put_u32(r.h, NFTA_TPROXY_FAMILY, htonl(NFPROTO_IPV4));
	mnl_attr_put_u32(r.h, NFTA_TPROXY_REG_ADDR, htonl(NFT_REG_1));
	mnl_attr_put_u32(r.h, NFTA_TPROXY_REG_PORT, htonl(NFT_REG_2));
	expression_end(&r);
	rule_end(m, &r);
}

static void filter_messages(struct messages *m)
{
	struct nlmsghdr *h =
		nf_message(m, NFNL_MSG_BATCH_BEGIN, 0, AF_UNSPEC, NFNL_SUBSYS_NFTABLES);

	end(m, h);
	h = table_message(m, NFT_MSG_NEWTABLE);
	mnl_attr_put_strz(h, NFTA_TABLE_NAME, TABLE);
	end(m, h);
	chain(m, "out", NF_INET_LOCAL_OUT, 0);
	chain(m, "in", NF_INET_PRE_ROUTING, -150);
	hold_syns(m);
	tell_of_datagrams(m);
	lead_to_listener(m);
	h = nf_message(m, NFNL_MSG_BATCH_END, 0, AF_UNSPEC, NFNL_SUBSYS_NFTABLES);
	end(m, h);
}

static struct nlmsghdr *log_message(struct messages *m)
{
	return nf_message(m, NFNL_SUBSYS_ULOG << 8 | NFULNL_MSG_CONFIG, NLM_F_ACK, AF_UNSPEC,
			  WIRES_LOG_GROUP);
}

/* Each packet at once: the kernel would wait for a hundred. */
static void log_messages(struct messages *m)
{
	const struct nfulnl_msg_config_cmd bind = {.command = NFULNL_CFG_CMD_BIND};
	const struct nfulnl_msg_config_mode mode = {.copy_range = htonl(WIRES_LOG_BYTES),
						    .copy_mode = NFULNL_COPY_PACKET};
	struct nlmsghdr *h = log_message(m);

	mnl_attr_put(h, NFULA_CFG_CMD, sizeof(bind), &bind);
	end(m, h);
	h = log_message(m);
	mnl_attr_put(h, NFULA_CFG_MODE, sizeof(mode), &mode);
	end(m, h);
	h = log_message(m);
	mnl_attr_put_u32(h, NFULA_CFG_QTHRESH, htonl(1));
	end(m, h);
}

static void write_out(FILE *f, const char *name, void (*fill)(struct messages *))
{
	static struct messages m;

	memset(&m, 0, sizeof(m));
	fill(&m);
	(void)fprintf(f, "static const unsigned char %s[] = {", name);
	for (size_t i = 0; i < m.len; i++)
		(void)fprintf(f, "%s%u,", i % 20 == 0 ? "\n\t" : " ", (unsigned char)m.bytes[i]);
	(void)fprintf(f, "\n};\n#define %s_answers %u\n", name, m.answers);
}

int main(int argc, char **argv)
{
	FILE *f = argc == 2 ? fopen(argv[1], "we") : NULL;

	if (!f)
		return 1;
	write_out(f, "wires_route", route_messages);
	write_out(f, "wires_filter", filter_messages);
	write_out(f, "wires_log", log_messages);
	return fclose(f) == 0 ? 0 : 1;
}
