#include "egress/dns.h"

#include "base/attr.h"
#include "egress/bytes.h"

#include <errno.h>
#include <string.h>

#define FLAGS          2
#define FLAG_RESPONSE  0x80 /* of the first byte of flags */
#define OPCODE         0x78
#define FLAG_RECURSION 0x01
#define FLAG_OFFERED   0x80 /* of the second: we do resolve */
#define COUNTS         4

#define CLASS_IN      1
#define WIRE_NAME_MAX 255 /* on the wire */
#define LABEL_MAX     63

/* As text. What would be mistaken for something else in it is a '?', of which no name has any. */
static char shown(uint8_t c)
{
	return c <= ' ' || c >= 0x7f || c == '.' ? '?' : (char)c;
}

/*
 * Labels up to the empty one, without pointers, of which a question has none. Returns their
 * length on the wire, or 0; text has the name with a dot behind each label.
 */
static size_t read_name(const uint8_t *data, size_t len, char text[WIRE_NAME_MAX], size_t *ret_len)
{
	size_t at = 0, out = 0;

	while (at < len && data[at] != 0) {
		size_t label = data[at++];

		if (label > LABEL_MAX || at + label >= len || at + label >= WIRE_NAME_MAX)
			return 0;
		for (size_t n = 0; n < label; n++)
			text[out++] = shown(data[at++]);
		text[out++] = '.';
	}
	*ret_len = out;
	return at < len ? at + 1 : 0;
}

static int read_question(const uint8_t *data, size_t len, struct dns_query *q)
{
	char text[WIRE_NAME_MAX] = "";
	size_t text_len = 0;
	size_t name = read_name(data, len, text, &text_len);

	if (name == 0 || name + 4 > len)
		return -EBADMSG;
	q->question_len = name + 4;
	memcpy(q->question, data, q->question_len);
	q->type = bytes_get16(data + name);
	if (bytes_get16(data + name + 2) != CLASS_IN)
		q->code = DNS_REFUSED;
	q->is_name = domain_name(text, text_len, q->name) == 0;
	if (!q->is_name) {
		size_t n = text_len > 1 ? text_len - 1 : text_len;

		memcpy(q->name, text_len > 0 ? text : ".", size_max(n, 1));
		q->name[size_max(n, 1)] = '\0';
	}
	return 0;
}

int dns_parse(const uint8_t *data, size_t len, struct dns_query *ret)
{
	*ret = (struct dns_query){0};
	if (len < DNS_HEAD || data[FLAGS] & FLAG_RESPONSE)
		return -EBADMSG;
	memcpy(ret->head, data, sizeof(ret->head));
	if (data[FLAGS] & OPCODE)
		ret->code = DNS_UNKNOWN;
	else if (bytes_get16(data + COUNTS) != 1 ||
		 read_question(data + DNS_HEAD, len - DNS_HEAD, ret) < 0)
		ret->code = DNS_FORMAT;
	return 0;
}

static size_t put_record(uint8_t *at, const uint8_t *address)
{
	bytes_put16(at, 0xc000 | DNS_HEAD); /* the name: that of the question */
	bytes_put16(at + 2, DNS_TYPE_A);
	bytes_put16(at + 4, CLASS_IN);
	bytes_put16(at + 6, 0);
	bytes_put16(at + 8, DNS_TTL);
	bytes_put16(at + 10, 4);
	memcpy(at + 12, address, 4);
	return 16;
}

size_t dns_answer(const struct dns_query *q, enum dns_code code, const uint8_t *address,
		  uint8_t ret[DNS_ANSWER_MAX])
{
	size_t len = DNS_HEAD + q->question_len;

	memset(ret, 0, DNS_HEAD);
	memcpy(ret, q->head, sizeof(q->head));
	ret[FLAGS] = (uint8_t)(FLAG_RESPONSE | (q->head[FLAGS] & (OPCODE | FLAG_RECURSION)));
	ret[FLAGS + 1] = (uint8_t)(FLAG_OFFERED | code);
	bytes_put16(ret + COUNTS, q->question_len > 0);
	memcpy(ret + DNS_HEAD, q->question, q->question_len);
	if (address && q->question_len > 0) {
		bytes_put16(ret + COUNTS + 2, 1);
		len += put_record(ret + len, address);
	}
	return len;
}
