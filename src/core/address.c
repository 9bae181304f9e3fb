#include "core/address.h"

#include "base/attr.h"
#include "base/parse.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define V4_AT   12 /* bytes before the v4 address in a mapped one */
#define V4_BITS 96
#define ALL     128

static const uint8_t mapped[V4_AT] = {[10] = 0xff, [11] = 0xff};

bool address_is_v4(const struct address *a)
{
	return memcmp(a->bytes, mapped, sizeof(mapped)) == 0;
}

int address_parse(const char *text, struct address *ret)
{
	struct address a;

	memcpy(a.bytes, mapped, sizeof(mapped));
	if (inet_pton(AF_INET, text, a.bytes + V4_AT) != 1 &&
	    inet_pton(AF_INET6, text, a.bytes) != 1)
		return -EINVAL;
	*ret = a;
	return 0;
}

void address_text(const struct address *a, char ret[ADDRESS_SIZE])
{
	if (address_is_v4(a))
		(void)inet_ntop(AF_INET, a->bytes + V4_AT, ret, ADDRESS_SIZE);
	else
		(void)inet_ntop(AF_INET6, a->bytes, ret, ADDRESS_SIZE);
}

static bool same_bits(const uint8_t *a, const uint8_t *b, unsigned bits)
{
	unsigned whole = bits / 8, rest = bits % 8;
	unsigned mask = 0xffu << (8 - rest) & 0xff;

	return memcmp(a, b, whole) == 0 && (rest == 0 || ((a[whole] ^ b[whole]) & mask) == 0);
}

struct prefix {
	uint8_t bytes[4];
	uint8_t bits;
};

/* IANA's special-purpose registries, and what clouds keep for themselves. */
static const struct prefix not_public_v4[] = {
	{{0}, 8},
	{{10}, 8},
	{{100, 64}, 10},
	{{127}, 8},
	{{168, 63, 129, 16}, 32}, /* Azure's, which answers its machines alone */
	{{169, 254}, 16},
	{{172, 16}, 12},
	{{192, 0, 0}, 24},
	{{192, 0, 2}, 24},
	{{192, 88, 99}, 24}, /* relays of 6to4 */
	{{192, 168}, 16},
	{{198, 18}, 15},
	{{198, 51, 100}, 24},
	{{203, 0, 113}, 24},
	{{224}, 4},
	{{240}, 4},
};

/* The same of 2000::/3: all else there is, or will be, somebody's. */
static const struct prefix not_public_v6[] = {
	{{0x20, 0x01, 0, 0}, 23},       /* protocols' own, Teredo's relays among them */
	{{0x20, 0x01, 0x0d, 0xb8}, 32}, /* documentation */
	{{0x3f, 0xff, 0, 0}, 20},       /* the same */
};

static bool has_prefix(const struct prefix *list, size_t n, const uint8_t *bytes)
{
	for (size_t i = 0; i < n; i++)
		if (same_bits(bytes, list[i].bytes, list[i].bits))
			return true;
	return false;
}

static bool is_public_v4(const uint8_t *bytes)
{
	return !has_prefix(not_public_v4, ARRAY_LEN(not_public_v4), bytes);
}

static bool is_public_v6(const uint8_t *bytes)
{
	static const uint8_t nat64[V4_AT] = {0, 0x64, 0xff, 0x9b};
	static const uint8_t six_to_four[] = {0x20, 0x02};
	static const uint8_t global[] = {0x20};

	/* Without v4 in the host's network, these are how hosts that have only v4 are reached. */
	if (same_bits(bytes, nat64, 8 * sizeof(nat64)))
		return is_public_v4(bytes + sizeof(nat64));
	if (same_bits(bytes, six_to_four, 8 * sizeof(six_to_four)))
		return is_public_v4(bytes + sizeof(six_to_four));
	return same_bits(bytes, global, 3) &&
	       !has_prefix(not_public_v6, ARRAY_LEN(not_public_v6), bytes);
}

bool address_is_public(const struct address *a)
{
	return address_is_v4(a) ? is_public_v4(a->bytes + V4_AT) : is_public_v6(a->bytes);
}

static int bad_rule(struct cay_error *err, const char *text)
{
	(void)cay_fail(err, CAY_E_INVALID, 0, "%.100s is no rule for addresses", text);
	return cay_hint(err, "use ADDRESS[/BITS][:PORT], such as 127.0.0.1:5432, 10.1.0.0/16 or "
			     "[fd00::]/8:443");
}

static bool is_prefix(const struct address *a, unsigned bits)
{
	static const uint8_t none[sizeof(a->bytes)];
	struct address rest = *a;

	memset(rest.bytes, 0, bits / 8);
	if (bits % 8 > 0)
		rest.bytes[bits / 8] &= (uint8_t)(0xffu >> bits % 8);
	return memcmp(rest.bytes, none, sizeof(none)) == 0;
}

/* The address, up to where /BITS or :PORT begin; *ret_rest is that. */
static int split_address(const char *text, struct address *ret, const char **ret_rest)
{
	bool bracket = text[0] == '[';
	size_t len = bracket ? strcspn(text, "]") - 1 : strcspn(text, "/:");
	char copy[ADDRESS_SIZE];

	if (len >= sizeof(copy) || (bracket && text[len + 1] != ']'))
		return -EINVAL;
	memcpy(copy, text + bracket, len);
	copy[len] = '\0';
	/* Brackets are a v6 address's, and only its. */
	if (bracket != (strchr(copy, ':') != NULL))
		return -EINVAL;
	*ret_rest = text + len + (bracket ? 2 : 0);
	return address_parse(copy, ret);
}

static int parse_bits(const char *text, size_t len, uint64_t max, uint64_t *ret)
{
	char copy[4];

	if (len >= sizeof(copy))
		return -EINVAL;
	memcpy(copy, text, len);
	copy[len] = '\0';
	return parse_u64(copy, 0, max, ret);
}

int address_rule_parse(const char *text, struct address_rule *ret, struct cay_error *err)
{
	unsigned before = text[0] == '[' ? 0 : V4_BITS;
	uint64_t bits = ALL - before, port = 0;
	struct address address;
	const char *rest;

	if (split_address(text, &address, &rest) < 0)
		return bad_rule(err, text);
	if (*rest == '/') {
		size_t len = strcspn(++rest, ":");

		if (parse_bits(rest, len, bits, &bits) < 0)
			return bad_rule(err, text);
		rest += len;
	}
	if (*rest && (*rest != ':' || parse_u64(rest + 1, 1, UINT16_MAX, &port) < 0))
		return bad_rule(err, text);
	if (!is_prefix(&address, before + (unsigned)bits))
		return cay_fail(err, CAY_E_INVALID, 0,
				"%.100s is no rule for addresses: bits are set behind the first %u",
				text, (unsigned)bits);
	*ret = (struct address_rule){address, (uint8_t)(before + bits), (uint16_t)port};
	return 0;
}

bool address_rule_matches(const struct address_rule *r, const struct address *a, uint16_t port)
{
	return address_is_v4(&r->address) == address_is_v4(a) &&
	       same_bits(r->address.bytes, a->bytes, r->bits) && (r->port == 0 || r->port == port);
}
