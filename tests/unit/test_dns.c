#include "egress/dns.h"

#include "base/attr.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* A question as programs send it: head, name, type, class. */
static size_t ask(uint8_t *ret, const void *name, size_t name_len, uint8_t type, uint8_t class)
{
	static const uint8_t head[DNS_HEAD] = {0x12, 0x34, 0x01, 0x20, 0, 1};
	const uint8_t tail[4] = {0, type, 0, class};

	memcpy(ret, head, sizeof(head));
	memcpy(ret + sizeof(head), name, name_len);
	memcpy(ret + sizeof(head) + name_len, tail, sizeof(tail));
	return sizeof(head) + name_len + sizeof(tail);
}

#define ASK(ret, name, type, class) ask(ret, name, sizeof(name), type, class)

static void reads_questions(void **state)
{
	static const struct {
		const char *wire;
		size_t len;
		const char *name;
		bool is_name;
	} rows[] = {
		{"\7example\3org", 13, "example.org", true},
		{"\7EXAMPLE\3oRg", 13, "example.org", true},
		{"\1a", 3, "a", true},
		{"", 1, ".", false},
		{"\4_sip\4_tcp\1a", 13, "_sip._tcp.a", false},
		{"\11evil.good\3org", 15, "evil?good.org", false},
		{"\6ev\0il\n\3org", 12, "ev?il?.org", false},
		{"\003"
		 "127\1"
		 "0\1"
		 "0\1"
		 "1",
		 11, "127.0.0.1", false},
	};
	uint8_t data[512];
	struct dns_query q;

	(void)state;
	for (size_t n = 0; n < ARRAY_LEN(rows); n++) {
		size_t len = ask(data, rows[n].wire, rows[n].len, DNS_TYPE_A, 1);

		assert_int_equal(dns_parse(data, len, &q), 0);
		assert_int_equal(q.code, DNS_OK);
		assert_int_equal(q.type, DNS_TYPE_A);
		assert_string_equal(q.name, rows[n].name);
		assert_int_equal(q.is_name, rows[n].is_name);
	}
}

static void refuses_others(void **state)
{
	uint8_t data[512];
	size_t len = ASK(data, "\1a", DNS_TYPE_A, 1);
	struct dns_query q;

	(void)state;
	assert_int_equal(dns_parse(data, DNS_HEAD - 1, &q), -EBADMSG);
	data[2] |= 0x80; /* an answer */
	assert_int_equal(dns_parse(data, len, &q), -EBADMSG);
	data[2] = 0x28; /* an update */
	assert_int_equal(dns_parse(data, len, &q), 0);
	assert_int_equal(q.code, DNS_UNKNOWN);
	data[2] = 1;
	data[5] = 2; /* two questions */
	assert_int_equal(dns_parse(data, len, &q), 0);
	assert_int_equal(q.code, DNS_FORMAT);
	len = ASK(data, "\1a", DNS_TYPE_A, 3); /* CHAOS */
	assert_int_equal(dns_parse(data, len, &q), 0);
	assert_int_equal(q.code, DNS_REFUSED);
	len = ASK(data, "\xc0\x0c", DNS_TYPE_A, 1); /* a pointer to itself */
	assert_int_equal(dns_parse(data, len, &q), 0);
	assert_int_equal(q.code, DNS_FORMAT);
	/* Cut short anywhere behind its head it is a bad question, never a shorter one. */
	len = ASK(data, "\7example\3org", DNS_TYPE_A, 1);
	for (size_t cut = DNS_HEAD; cut < len; cut++) {
		assert_int_equal(dns_parse(data, cut, &q), 0);
		assert_int_equal(q.code, DNS_FORMAT);
	}
}

/* 255 bytes on the wire are the longest name there is; 256 are none. */
static void longest_name(void **state)
{
	uint8_t name[300], data[512];
	struct dns_query q;
	size_t at = 0;

	(void)state;
	for (int k = 0; k < 3; k++, at += 64) {
		name[at] = 63;
		memset(name + at + 1, 'a', 63);
	}
	name[at] = 61;
	memset(name + at + 1, 'b', 62);
	name[at + 62] = 0;
	assert_int_equal(dns_parse(data, ask(data, name, 255, 1, 1), &q), 0);
	assert_int_equal(q.code, DNS_OK);
	assert_true(q.is_name);
	assert_int_equal(strlen(q.name), 253);
	name[at] = 62;
	name[at + 62] = 'b';
	name[at + 63] = 0;
	assert_int_equal(dns_parse(data, ask(data, name, 256, 1, 1), &q), 0);
	assert_int_equal(q.code, DNS_FORMAT);
}

static void answers(void **state)
{
	static const uint8_t address[4] = {198, 18, 1, 0};
	static const uint8_t record[] = {0xc0, 12,      0, 1, 0,   1,  0, 0,
					 0,    DNS_TTL, 0, 4, 198, 18, 1, 0};
	uint8_t data[512], out[DNS_ANSWER_MAX];
	size_t asked = ASK(data, "\7eXample\3org", DNS_TYPE_A, 1), len;
	struct dns_query q;

	(void)state;
	assert_int_equal(dns_parse(data, asked, &q), 0);
	len = dns_answer(&q, DNS_OK, address, out);
	assert_int_equal(len, asked + sizeof(record));
	assert_memory_equal(out + asked, record, sizeof(record));
	assert_memory_equal(out, "\x12\x34\x81\x80\0\1\0\1\0\0\0\0", 12);
	/* As it was asked, letter by letter. */
	assert_memory_equal(out + DNS_HEAD, data + DNS_HEAD, asked - DNS_HEAD);
	len = dns_answer(&q, DNS_NO_NAME, NULL, out);
	assert_int_equal(len, asked);
	assert_memory_equal(out, "\x12\x34\x81\x83\0\1\0\0\0\0\0\0", 12);
	assert_int_equal(dns_parse(data, DNS_HEAD, &q), 0);
	len = dns_answer(&q, q.code, address, out);
	assert_int_equal(len, DNS_HEAD);
	assert_memory_equal(out, "\x12\x34\x81\x81\0\0\0\0\0\0\0\0", 12);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_questions),
		cmocka_unit_test(refuses_others),
		cmocka_unit_test(longest_name),
		cmocka_unit_test(answers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
