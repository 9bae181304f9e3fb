/*
 * The first bytes of connections: whatever they are and however they are cut, the same must be
 * found; what is asked about is a name or an address; and who may name nothing passes nothing
 * named.
 */
#include "fuzz.h"

#include "core/address.h"
#include "core/domain.h"
#include "egress/sniff.h"

struct asked {
	bool answer;
	size_t times;
};

static bool ok(void *ctx, const char *name)
{
	struct asked *a = ctx;
	char normal[DOMAIN_SIZE], text[ADDRESS_SIZE];
	struct address address;

	if (address_parse(name, &address) == 0) {
		address_text(&address, text);
		CHECK(strcmp(text, name) == 0);
	} else {
		CHECK(domain_name(name, strlen(name), normal) == 0 && strcmp(normal, name) == 0);
	}
	a->times++;
	return a->answer;
}

static enum sniff_verdict feed(struct input in, size_t piece, struct asked *a)
{
	_cleanup_(sniff_freep) struct sniff *s = sniff_new(ok, a);
	enum sniff_verdict v = SNIFF_PASS;

	CHECK(s);
	while (in.len > 0) {
		size_t n = size_min(piece, in.len), held = sniff_held(s);

		v = sniff_bytes(s, (const char *)in.at, n);
		CHECK(sniff_held(s) <= held + n && sniff_held(s) <= SNIFF_HELD_MAX + n);
		if (v == SNIFF_MORE)
			CHECK(sniff_held(s) > 0);
		if (v == SNIFF_PASS || v == SNIFF_DONE)
			CHECK(sniff_held(s) == 0);
		if (v == SNIFF_DONE || v >= SNIFF_DIFFERS) {
			CHECK(sniff_bytes(s, "GET", 3) == v);
			return v;
		}
		in.at += n;
		in.len -= n;
	}
	v = sniff_end(s);
	CHECK((v == SNIFF_MORE) == (sniff_held(s) > 0 && v < SNIFF_DIFFERS));
	return v;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct asked yes = {.answer = true}, no = {.answer = false};
	enum sniff_verdict whole = feed(INPUT(data, size), SIZE_MAX, &yes);

	CHECK(feed(INPUT(data, size), 1, &yes) == whole);
	CHECK(feed(INPUT(data, size), size % 17 + 2, &yes) == whole);
	whole = feed(INPUT(data, size), SIZE_MAX, &no);
	CHECK(no.times == 0 || (no.times == 1 && whole == SNIFF_DIFFERS));
	return 0;
}
