/* Copies of an island's packets, as the kernel hands them out. */
#include "fuzz.h"

#include "egress/syn.h"

static void answer(const struct syn *s)
{
	uint8_t out[SYN_ANSWER_MAX];
	struct syn again;
	size_t len = syn_again(s, out);

	CHECK(len == s->len && len <= SYN_HEAD_MAX);
	/* What is let through is the same SYN. */
	CHECK(syn_parse(out, len, &again) == 0 && again.seq == s->seq);
	CHECK(memcmp(&again.tuple, &s->tuple, sizeof(again.tuple)) == 0);
	CHECK(syn_refused(s, out) <= sizeof(out));
	CHECK(syn_unreachable(s, 1, out) <= sizeof(out));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct nflog log = {data, size};
	const uint8_t *packet;
	size_t len;
	struct syn s;

	while (nflog_next(&log, &packet, &len)) {
		CHECK(packet >= data && packet + len <= data + size);
		if (syn_parse(packet, len, &s) == 0 && !s.udp)
			answer(&s);
	}
	if (syn_parse(data, size, &s) == 0 && !s.udp)
		answer(&s);
	return 0;
}
