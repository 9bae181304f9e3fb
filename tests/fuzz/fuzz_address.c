/* A rule for addresses and an address, one a line: what is read can be written and read again. */
#include "fuzz.h"

#include "core/address.h"

static void check_same(const struct address *a, const struct address *b)
{
	CHECK(memcmp(a->bytes, b->bytes, sizeof(a->bytes)) == 0);
}

static void check_address(const char *text)
{
	struct address a, again;
	char back[ADDRESS_SIZE];

	if (address_parse(text, &a) < 0)
		return;
	address_text(&a, back);
	CHECK(address_parse(back, &again) == 0);
	check_same(&a, &again);
	CHECK(address_is_public(&a) == address_is_public(&again));
}

static void check_rule(const char *text, const char *other)
{
	struct address_rule r, whole;
	struct cay_error err;
	struct address a;
	char name[ADDRESS_SIZE], exact[ADDRESS_SIZE + 16];

	if (address_rule_parse(text, &r, &err) < 0) {
		CHECK(err.code == CAY_E_INVALID);
		return;
	}
	CHECK(r.bits <= 128);
	CHECK(address_rule_matches(&r, &r.address, r.port ? r.port : 1));
	if (r.port > 0)
		CHECK(!address_rule_matches(&r, &r.address, (uint16_t)(r.port ^ 1)));
	if (address_parse(other, &a) < 0 || !address_rule_matches(&r, &a, r.port))
		return;
	/* What it matches has a rule of its own, in the same notation. */
	address_text(&a, name);
	(void)snprintf(exact, sizeof(exact), strchr(name, ':') ? "[%s]" : "%s", name);
	CHECK(address_rule_parse(exact, &whole, &err) == 0);
	CHECK(whole.bits == 128 && whole.port == 0);
	check_same(&whole.address, &a);
	CHECK(address_rule_matches(&whole, &a, 1));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = INPUT(data, size);
	_cleanup_(freep) char *rule = input_line(&in);
	_cleanup_(freep) char *text = input_rest(&in);

	check_address(rule);
	check_address(text);
	check_rule(rule, text);
	return 0;
}
