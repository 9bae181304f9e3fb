#include "egress/syn.h"

#include "base/attr.h"
#include "egress/bytes.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/ip_icmp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* From 198.18.0.2:40000 to 198.18.1.0:443, with an option (MSS), and a checksum that is wrong. */
static const uint8_t packet[] = {
	0x45, 0,    0,    44,   0,    7,    0x40, 0,    64, 6, 0,    0,
	198,  18,   0,    2,    198,  18,   1,    0, /* IP */
	0x9c, 0x40, 0x01, 0xbb, 1,    2,    3,    0xff, 0,  0, 0,    0,
	0x60, 0x02, 0xff, 0xff, 0xde, 0xad, 0,    0,    2,  4, 0x05, 0xb4,
};

/* What a receiver computes: 0 where the checksum is right. */
static uint16_t sum_of(uint32_t sum, const uint8_t *data, size_t len)
{
	for (size_t n = 0; n < len; n += 2)
		sum += bytes_get16(data + n);
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)~sum;
}

static uint16_t tcp_sum(const uint8_t *p, size_t len)
{
	return sum_of(6 + (uint32_t)len - 20 + (uint16_t)~sum_of(0, p + 12, 8), p + 20, len - 20);
}

static void reads_syns(void **state)
{
	struct syn s;
	uint8_t copy[sizeof(packet)];

	(void)state;
	assert_int_equal(syn_parse(packet, sizeof(packet), &s), 0);
	assert_int_equal(ntohl(s.tuple.from), 0xc6120002);
	assert_int_equal(ntohl(s.tuple.to), 0xc6120100);
	assert_int_equal(ntohs(s.tuple.from_port), 40000);
	assert_int_equal(ntohs(s.tuple.to_port), 443);
	assert_int_equal(ntohl(s.seq), 0x010203ff);
	assert_false(s.udp);
	for (size_t len = 0; len < sizeof(packet); len++)
		assert_int_equal(syn_parse(packet, len, &s), -EINVAL);
	memcpy(copy, packet, sizeof(copy));
	copy[33] = 0x12; /* SYN and ACK */
	assert_int_equal(syn_parse(copy, sizeof(copy), &s), -EINVAL);
	memcpy(copy, packet, sizeof(copy));
	copy[7] = 1; /* a later fragment */
	assert_int_equal(syn_parse(copy, sizeof(copy), &s), -EINVAL);
	memcpy(copy, packet, sizeof(copy));
	copy[9] = 1; /* ICMP */
	assert_int_equal(syn_parse(copy, sizeof(copy), &s), -EINVAL);
	copy[9] = 17;
	assert_int_equal(syn_parse(copy, sizeof(copy), &s), 0);
	assert_true(s.udp);
	copy[0] = 0x65;
	assert_int_equal(syn_parse(copy, sizeof(copy), &s), -EINVAL);
}

static void lets_through(void **state)
{
	uint8_t long_one[sizeof(packet) + 10] = {0}, out[SYN_ANSWER_MAX];
	struct syn s;

	(void)state;
	/* With data, which is sent again by itself when nobody has acknowledged it. */
	memcpy(long_one, packet, sizeof(packet));
	long_one[3] = sizeof(long_one);
	assert_int_equal(syn_parse(long_one, sizeof(long_one), &s), 0);
	assert_int_equal(syn_again(&s, out), sizeof(packet));
	assert_int_equal(bytes_get16(out + 2), sizeof(packet));
	assert_int_equal(tcp_sum(out, sizeof(packet)), 0);
	assert_memory_equal(out + 20, packet + 20, 16);
	assert_memory_equal(out + 38, packet + 38, 6);
}

static void answers(void **state)
{
	uint8_t out[SYN_ANSWER_MAX];
	struct syn s;
	size_t len;

	(void)state;
	assert_int_equal(syn_parse(packet, sizeof(packet), &s), 0);
	len = syn_refused(&s, out);
	assert_int_equal(len, 40);
	assert_int_equal(tcp_sum(out, len), 0);
	assert_memory_equal(out + 12, "\xc6\x12\1\0\xc6\x12\0\2", 8);
	assert_memory_equal(out + 20, "\1\xbb\x9c\x40\0\0\0\0\1\2\4\0\x50\x14", 14);
	len = syn_unreachable(&s, ICMP_PKT_FILTERED, out);
	assert_int_equal(len, 56);
	assert_int_equal(sum_of(0, out + 20, len - 20), 0);
	assert_memory_equal(out + 20, "\3\15", 2);
	assert_memory_equal(out + 28, packet, 28);
}

/* A message of netlink's as NFLOG sends it: an attribute of no interest, and the packet. */
static size_t log_message(uint8_t *ret, const uint8_t *data, uint16_t len)
{
	const uint16_t attr[2] = {(uint16_t)(4 + len), 9};
	const uint32_t total = 16 + 4 + 8 + 4 + (((uint32_t)len + 3) & ~3u);
	const uint16_t type = 4 << 8;

	memset(ret, 0, total);
	memcpy(ret, &total, 4);
	memcpy(ret + 4, &type, 2);
	memcpy(ret + 20, "\10\0\1\0xxxx", 8);
	memcpy(ret + 28, attr, 4);
	memcpy(ret + 32, data, len);
	return total;
}

static void finds_packets(void **state)
{
	uint8_t data[512];
	size_t len = log_message(data, (const uint8_t *)"one", 3), found_len, n = 0;
	const uint8_t *found;

	(void)state;
	len += log_message(data + len, (const uint8_t *)"two2", 4);
	struct nflog log = {data, len};
	assert_true(nflog_next(&log, &found, &found_len));
	assert_int_equal(found_len, 3);
	assert_memory_equal(found, "one", 3);
	assert_true(nflog_next(&log, &found, &found_len));
	assert_memory_equal(found, "two2", 4);
	assert_false(nflog_next(&log, &found, &found_len));
	for (size_t cut = 0; cut < len; cut++) {
		log = (struct nflog){data, cut};
		for (n = 0; nflog_next(&log, &found, &found_len); n++)
			assert_true(found + found_len <= data + cut);
		assert_true(n < 2);
	}
	data[4] = 2; /* an error's */
	log = (struct nflog){data, len};
	assert_true(nflog_next(&log, &found, &found_len));
	assert_memory_equal(found, "two2", 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_syns),
		cmocka_unit_test(lets_through),
		cmocka_unit_test(answers),
		cmocka_unit_test(finds_packets),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
