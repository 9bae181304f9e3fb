/* Questions about names, as an island's programs send them. */
#include "fuzz.h"

#include "egress/dns.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint8_t address[4] = {198, 18, 1, 0};
	_cleanup_(freep) struct dns_query *q = malloc(sizeof(*q));
	uint8_t out[DNS_ANSWER_MAX];
	char name[DOMAIN_SIZE];
	size_t len;

	CHECK(q);
	if (dns_parse(data, size, q) < 0)
		return 0;
	CHECK(memchr(q->name, '\0', sizeof(q->name)));
	CHECK(q->question_len <= sizeof(q->question) && q->question_len <= size);
	for (const char *c = q->name; *c; c++)
		CHECK(*c > ' ' && *c < 0x7f);
	/* A name is the same when it is read again; what is shown of others never is one. */
	CHECK((domain_name(q->name, strlen(q->name), name) == 0) == q->is_name);
	CHECK(!q->is_name || strcmp(name, q->name) == 0);
	CHECK(q->code != DNS_OK || q->question_len > 0);
	len = dns_answer(q, q->code, address, out);
	CHECK(len <= sizeof(out) && memcmp(out, data, 2) == 0 && out[2] & 0x80);
	return 0;
}
