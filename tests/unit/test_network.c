#include "policy/network.h"

#include "base/attr.h"
#include "policy/bounds.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

/* What the operator, a key and a call say; NULL: nothing. Lists have spaces between. */
struct say {
	const char *operator_mode, *operator_allow, *operator_block;
	const char *key_tier, *key_networks, *key_allow, *key_block;
	const char *mode, *allow, *block, *tier;
};

struct parties {
	struct settings settings;
	struct bounds key;
	struct spec *spec;
};

/* Calls fn for each word of a list. */
static void each(const char *list, int (*fn)(struct parties *, const char *, struct cay_error *),
		 struct parties *p)
{
	struct cay_error err;
	char text[512], *save = NULL;

	(void)snprintf(text, sizeof(text), "%s", list ? list : "");
	for (char *word = strtok_r(text, " ", &save); word; word = strtok_r(NULL, " ", &save))
		if (fn(p, word, &err) < 0)
			fail_msg("%s: %s", word, err.text);
}

static int operator_allows(struct parties *p, const char *word, struct cay_error *err _unused_)
{
	return strv_add(&p->settings.network_allow, word);
}

static int operator_blocks(struct parties *p, const char *word, struct cay_error *err _unused_)
{
	return strv_add(&p->settings.network_block, word);
}

static int key_allows(struct parties *p, const char *word, struct cay_error *err _unused_)
{
	return strv_add(&p->key.allow, word);
}

static int key_blocks(struct parties *p, const char *word, struct cay_error *err _unused_)
{
	return strv_add(&p->key.block, word);
}

static int key_has_network(struct parties *p, const char *word, struct cay_error *err _unused_)
{
	p->key.networks |= 1u << network_mode_find(word);
	return 0;
}

static int call_allows(struct parties *p, const char *word, struct cay_error *err)
{
	return spec_allow_domain(p->spec, word, err);
}

static int call_blocks(struct parties *p, const char *word, struct cay_error *err)
{
	return spec_block_domain(p->spec, word, err);
}

static void gather(struct parties *p, const struct say *say)
{
	struct cay_error err;

	*p = (struct parties){.spec = calloc(1, sizeof(*p->spec))};
	assert_non_null(p->spec);
	settings_init(&p->settings);
	if (say->operator_mode)
		p->settings.network_mode = network_mode_find(say->operator_mode);
	each(say->operator_allow, operator_allows, p);
	each(say->operator_block, operator_blocks, p);
	if (say->key_tier || say->key_networks || say->key_allow || say->key_block)
		p->settings.key = &p->key;
	p->key.has_tier = say->key_tier != NULL;
	if (say->key_tier)
		p->key.tier = tier_find(say->key_tier);
	p->key.has_networks = say->key_networks != NULL;
	each(say->key_networks, key_has_network, p);
	p->key.has_allow = say->key_allow != NULL;
	each(say->key_allow, key_allows, p);
	each(say->key_block, key_blocks, p);
	if (say->mode)
		assert_int_equal(spec_set_network(p->spec, say->mode, &err), 0);
	if (say->tier)
		assert_int_equal(spec_set_tier(p->spec, say->tier, &err), 0);
	each(say->allow, call_allows, p);
	each(say->block, call_blocks, p);
}

static void disperse(struct parties *p)
{
	settings_done(&p->settings);
	bounds_done(&p->key);
	spec_done(p->spec);
	free(p->spec);
}

static void write_list(const struct strv *list, char *ret, size_t size)
{
	size_t len = 0;

	ret[0] = '\0';
	for (size_t i = 0; i < list->len; i++) {
		int n = snprintf(ret + len, size - len, "%s%s", i ? " " : "", list->items[i]);

		len += (size_t)n;
		assert_true(len < size);
	}
}

/* MODE|ALLOWED|BLOCKED */
static void write_network(const struct network_spec *n, char *ret, size_t size)
{
	char allow[512], block[512];

	write_list(&n->allow, allow, sizeof(allow));
	write_list(&n->block, block, sizeof(block));
	assert_true(n->said);
	(void)snprintf(ret, size, "%s|%s|%s", network_mode_name(n->mode), allow, block);
}

static void check(size_t row, const struct say *say, const char *expected)
{
	struct parties p;
	struct network_spec n, again;
	struct cay_error err;
	char text[2048];

	gather(&p, say);
	if (network_decide(p.spec, &p.settings, &n, &err) < 0)
		fail_msg("row %zu: %s", row, err.text);
	write_network(&n, text, sizeof(text));
	if (strcmp(text, expected) != 0)
		fail_msg("row %zu: %s, and not %s", row, text, expected);
	assert_int_equal(network_in_sight(p.spec, &p.settings), n.mode);
	/* Decided again it is the same; also without the key, which may be gone by then. */
	for (int k = 0; k < 2; k++) {
		network_spec_done(&p.spec->network);
		p.spec->network = n;
		assert_int_equal(network_decide(p.spec, &p.settings, &again, &err), 0);
		write_network(&again, text, sizeof(text));
		assert_string_equal(text, expected);
		n = again;
		p.settings.key = NULL;
	}
	network_spec_done(&n);
	disperse(&p);
}

static void what_is_had(void **state)
{
	static const struct {
		struct say say;
		const char *network; /* MODE|ALLOWED|BLOCKED */
	} rows[] = {
		/* Nothing is had that is not asked for. */
		{{0}, "none||"},
		{{.operator_allow = "a.b"}, "none||"},
		{{.key_tier = "unrestricted"}, "none||"},
		{{.block = "a.b"}, "none||"},
		{{.mode = "none", .operator_block = "a.b"}, "none||"},
		{{.mode = "none", .tier = "elevated"}, "none||"},
		{{.tier = "sandbox"}, "none||"},
		{{.tier = "restricted"}, "none||"},
		/* By name. */
		{{.mode = "full"}, "full||"},
		{{.mode = "full", .block = "a.b"}, "full||a.b"},
		{{.allow = "a.b"}, "allowlist|a.b|"},
		{{.allow = "A.b. a.b *.c:22", .block = "x.c"}, "allowlist|a.b *.c:22|x.c"},
		{{.mode = "allowlist", .allow = "a.b"}, "allowlist|a.b|"},
		/* By tier, and less than it brings. */
		{{.tier = "standard", .operator_allow = "a.b"}, "allowlist|a.b|"},
		{{.tier = "standard", .allow = "a.b"}, "allowlist|a.b|"},
		{{.tier = "elevated"}, "full||"},
		{{.tier = "unrestricted"}, "full||"},
		{{.tier = "elevated", .allow = "a.b"}, "allowlist|a.b|"},
		{{.tier = "elevated", .mode = "none"}, "none||"},
		{{.tier = "elevated", .operator_mode = "allowlist", .operator_allow = "a.b"},
		 "allowlist|a.b|"},
		{{.tier = "elevated", .operator_mode = "none"}, "none||"},
		{{.tier = "elevated", .key_networks = "none"}, "none||"},
		{{.tier = "standard", .key_networks = "none full"}, "none||"},
		{{.tier = "elevated", .key_allow = "a.b"}, "allowlist|a.b|"},
		/* Lists: the call's, the key's, the operator's. */
		{{.mode = "allowlist", .operator_allow = "a.b c.d"}, "allowlist|a.b c.d|"},
		{{.mode = "allowlist", .key_allow = "a.b"}, "allowlist|a.b|"},
		{{.mode = "allowlist", .key_allow = "a.b", .operator_allow = "*"},
		 "allowlist|a.b|"},
		{{.allow = "x.a.b:443", .operator_allow = "*.a.b", .key_allow = "x.a.b"},
		 "allowlist|x.a.b:443|"},
		{{.mode = "allowlist", .key_allow = "*", .operator_allow = "a.b *.c"},
		 "allowlist|a.b *.c|"},
		{{.mode = "allowlist", .key_allow = "*.a.b:*", .operator_allow = "x.a.b y.b"},
		 "allowlist|x.a.b|"},
		{{.mode = "allowlist", .key_allow = "*.b:443", .operator_allow = "a.b c.b:22"},
		 "allowlist|a.b:443|"},
		{{.mode = "allowlist", .key_allow = "a.b", .operator_allow = "*:80"},
		 "allowlist|a.b:80|"},
		/* What blocks is everybody's. */
		{{.allow = "*", .block = "a.b", .key_block = "c.d a.b", .operator_block = "e.f"},
		 "allowlist|*|a.b c.d e.f"},
		{{.mode = "full", .key_block = "c.d", .operator_block = "c.d"}, "full||c.d"},
		/* An operator's list is kept by whoever connects, in mode full too. */
		{{.mode = "full", .operator_allow = "a.b"}, "full||"},
		{{.mode = "full", .key_tier = "elevated", .key_networks = "full"}, "full||"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		check(i, &rows[i].say, rows[i].network);
}

static void what_is_not(void **state)
{
	static const struct {
		struct say say;
		enum cay_code code;
		const char *text, *hint;
	} rows[] = {
		{{.mode = "full", .operator_mode = "allowlist"},
		 CAY_E_POLICY,
		 "the network mode full is above the operator's, which is allowlist",
		 "[network] mode"},
		{{.allow = "a.b", .operator_mode = "none"},
		 CAY_E_POLICY,
		 "the network mode allowlist is above the operator's, which is none",
		 "[network] mode"},
		{{.mode = "full", .key_tier = "standard"},
		 CAY_E_POLICY,
		 "the network mode full is above what the key's tier brings: standard, which is "
		 "allowlist",
		 "key's tier"},
		{{.allow = "a.b", .key_tier = "sandbox"},
		 CAY_E_POLICY,
		 "the network mode allowlist is above what the key's tier brings: sandbox, which "
		 "is none",
		 "key's tier"},
		{{.mode = "full", .key_networks = "none allowlist"},
		 CAY_E_POLICY,
		 "the network mode full: not for this key",
		 "bound networks"},
		{{.mode = "full", .key_allow = "*"},
		 CAY_E_POLICY,
		 "the network mode full: this key has a list of domains",
		 "bound allow"},
		{{.mode = "full", .tier = "standard"},
		 CAY_E_POLICY,
		 "the network mode full is above what the request's tier brings: standard, which "
		 "is allowlist",
		 "another tier"},
		{{.allow = "a.b", .tier = "restricted"},
		 CAY_E_POLICY,
		 "the network mode allowlist is above what the request's tier brings: restricted, "
		 "which is none",
		 "another tier"},
		{{.tier = "elevated", .key_tier = "standard"},
		 CAY_E_POLICY,
		 "the tier elevated is above the key's, which is standard",
		 "key's tier"},
		{{.allow = "a.b x.c", .operator_allow = "a.b *.d"},
		 CAY_E_POLICY,
		 "the domain x.c is not among what the operator allows",
		 "[network] allow"},
		{{.allow = "*", .operator_allow = "*.d"},
		 CAY_E_POLICY,
		 "the domain * is not among what the operator allows",
		 "[network] allow"},
		{{.allow = "a.b:22", .operator_allow = "a.b"},
		 CAY_E_POLICY,
		 "the domain a.b:22 is not among what the operator allows",
		 "[network] allow"},
		{{.allow = "x.c", .operator_allow = "*", .key_allow = "a.b"},
		 CAY_E_POLICY,
		 "the domain x.c is not among what the key allows",
		 "bound allow"},
		{{.allow = "x.c", .key_allow = ""},
		 CAY_E_POLICY,
		 "the domain x.c is not among what the key allows",
		 "bound allow"},
		{{.mode = "allowlist", .key_allow = ""},
		 CAY_E_POLICY,
		 "the network mode allowlist: there is no domain that this key may reach",
		 ""},
		{{.mode = "allowlist", .key_allow = "a.b", .operator_allow = "c.d"},
		 CAY_E_POLICY,
		 "the network mode allowlist: there is no domain that this key may reach",
		 ""},
		{{.mode = "allowlist"},
		 CAY_E_INVALID,
		 "the network mode allowlist, and no domain is listed",
		 "--allow-domain"},
		{{.mode = "full", .allow = "a.b"},
		 CAY_E_INVALID,
		 "the network mode full takes no list of allowed domains",
		 "--allow-domain"},
		{{.mode = "none", .allow = "a.b"},
		 CAY_E_INVALID,
		 "the network mode none takes no list of allowed domains",
		 "--allow-domain"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct parties p;
		struct network_spec n;
		struct cay_error err = {0};

		gather(&p, &rows[i].say);
		assert_int_equal(network_decide(p.spec, &p.settings, &n, &err), -1);
		assert_int_equal(err.code, rows[i].code);
		assert_string_equal(err.text, rows[i].text);
		if (rows[i].hint[0] ? !strstr(err.hint, rows[i].hint) : err.hint[0])
			fail_msg("row %zu: hint '%s'", i, err.hint);
		disperse(&p);
	}
}

/* Tiers are the operator's to change. */
static void tiers_bring_what_settings_say(void **state)
{
	struct parties p;
	struct network_spec n;
	struct cay_error err;

	(void)state;
	gather(&p, &(struct say){.tier = "sandbox", .key_tier = "sandbox"});
	p.settings.tiers[TIER_SANDBOX].network = NETWORK_FULL;
	assert_int_equal(network_decide(p.spec, &p.settings, &n, &err), 0);
	assert_int_equal(n.mode, NETWORK_FULL);
	network_spec_done(&n);
	disperse(&p);
}

static void add_many(struct strv *list, size_t n, const char *behind)
{
	for (size_t i = 0; i < n; i++)
		assert_int_equal(strv_addf(list, "r%zu.%s", i, behind), 0);
}

#define LABEL "abcdefghijklmnopqrstuvwxyz-abcdefghijklmnopqrstuvwxyz"

static void rules_are_counted_together(void **state)
{
	struct parties p;
	struct network_spec n;
	struct cay_error err = {0};

	(void)state;
	gather(&p, &(struct say){.allow = "z.z"});
	add_many(&p.settings.network_block, EGRESS_RULES_MAX - 1, "b");
	assert_int_equal(network_decide(p.spec, &p.settings, &n, &err), 0);
	assert_int_equal(n.allow.len + n.block.len, EGRESS_RULES_MAX);
	network_spec_done(&n);
	assert_int_equal(spec_allow_domain(p.spec, "y.y", &err), 0);
	assert_int_equal(network_decide(p.spec, &p.settings, &n, &err), -1);
	assert_int_equal(err.code, CAY_E_TOO_LARGE);
	disperse(&p);
	gather(&p, &(struct say){.allow = "z.z"});
	add_many(&p.settings.network_block, EGRESS_RULES_MAX - 1, LABEL "." LABEL "." LABEL);
	assert_int_equal(network_decide(p.spec, &p.settings, &n, &err), -1);
	assert_int_equal(err.code, CAY_E_TOO_LARGE);
	disperse(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_had),
		cmocka_unit_test(what_is_not),
		cmocka_unit_test(tiers_bring_what_settings_say),
		cmocka_unit_test(rules_are_counted_together),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
