#include "egress/verdict.h"

#include "base/attr.h"
#include "egress/journal.h"

#include <stdio.h>
#include <stdlib.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static struct settings settings;
static struct operator_rules operator_;

/* rules: with a space between them. */
static void make(struct policy *p, enum network_mode mode, const char *rules)
{
	char text[512];
	struct cay_error err;
	size_t len = strlen(rules);

	(void)snprintf(text, sizeof(text), "%s", rules);
	for (size_t n = 0; n < len; n++)
		text[n] = text[n] == ' ' ? '\0' : text[n];
	*p = (struct policy){.mode = mode, .operator= & operator_ };
	assert_int_equal(rules_parse(text, len > 0 ? len + 1 : 0, &p->rules, &err), 0);
}

static void operator_says(const char *text)
{
	struct cay_error err;

	settings_init(&settings);
	assert_int_equal(settings_parse(&settings, "test", text, &err), 0);
	assert_int_equal(operator_rules_make(&settings, &operator_, &err), 0);
}

static void operator_leaves(void)
{
	operator_rules_done(&operator_);
	settings_done(&settings);
}

struct row {
	enum network_mode mode;
	const char *rules, *name;
	uint16_t port;
	enum egress_why why;
};

static void check(const struct row *rows, size_t n)
{
	for (size_t k = 0; k < n; k++) {
		const struct row *r = &rows[k];
		struct policy p;
		struct address a;
		enum egress_why why;

		make(&p, r->mode, r->rules);
		why = address_parse(r->name, &a) == 0 ? verdict_literal(&p, &a, r->port)
						      : verdict_name(&p, r->name, r->port);
		if (why != r->why)
			fail_msg("row %zu: %s:%u with '%s': %d", k, r->name, r->port, r->rules,
				 why);
		rules_done(&p.rules);
	}
}

static void without_operator(void **state)
{
	static const struct row rows[] = {
		{NETWORK_ALLOWLIST, "+a.org", "a.org", 443, WHY_NONE},
		{NETWORK_ALLOWLIST, "+a.org", "a.org", 80, WHY_NONE},
		{NETWORK_ALLOWLIST, "+a.org", "a.org", 0, WHY_NONE},
		{NETWORK_ALLOWLIST, "+a.org", "a.org", 22, WHY_PORT},
		{NETWORK_ALLOWLIST, "+a.org:22", "a.org", 22, WHY_NONE},
		{NETWORK_ALLOWLIST, "+a.org:22", "a.org", 443, WHY_PORT},
		{NETWORK_ALLOWLIST, "+a.org:22", "a.org", 0, WHY_NONE},
		{NETWORK_ALLOWLIST, "+a.org:22 +*.org", "a.org", 443, WHY_NONE},
		{NETWORK_ALLOWLIST, "+a.org", "b.a.org", 443, WHY_NOT_LISTED},
		{NETWORK_ALLOWLIST, "+*.a.org", "b.a.org", 443, WHY_NONE},
		{NETWORK_ALLOWLIST, "+*.a.org -b.a.org", "b.a.org", 443, WHY_BLOCKED},
		{NETWORK_ALLOWLIST, "+*.a.org -b.a.org:80", "b.a.org", 443, WHY_NONE},
		{NETWORK_ALLOWLIST, "+*.a.org -b.a.org:80", "b.a.org", 0, WHY_NONE},
		{NETWORK_ALLOWLIST, "", "a.org", 443, WHY_NOT_LISTED},
		{NETWORK_ALLOWLIST, "+*:*", "1.1.1.1", 443, WHY_LITERAL},
		{NETWORK_ALLOWLIST, "", "1.1.1.1", 443, WHY_LITERAL},
		{NETWORK_NONE, "+*:*", "a.org", 443, WHY_NOT_LISTED},
		{NETWORK_NONE, "+*:*", "1.1.1.1", 443, WHY_NOT_LISTED},
		{NETWORK_FULL, "", "a.org", 25, WHY_NONE},
		{NETWORK_FULL, "-a.org", "a.org", 25, WHY_BLOCKED},
		{NETWORK_FULL, "", "1.1.1.1", 25, WHY_NONE},
		{NETWORK_FULL, "-*:25", "1.1.1.1", 25, WHY_BLOCKED},
		{NETWORK_FULL, "-*:25", "1.1.1.1", 443, WHY_NONE},
		{NETWORK_FULL, "", "10.0.0.1", 443, WHY_NOT_PUBLIC},
		{NETWORK_FULL, "", "198.18.1.7", 443, WHY_NOT_PUBLIC},
	};

	(void)state;
	operator_says("");
	check(rows, ARRAY_LEN(rows));
	operator_leaves();
}

static void with_operator(void **state)
{
	static const struct row rows[] = {
		{NETWORK_ALLOWLIST, "+*:*", "a.org", 443, WHY_NONE},
		{NETWORK_ALLOWLIST, "+*:*", "a.org", 22, WHY_OPERATOR},
		{NETWORK_ALLOWLIST, "+*:*", "x.a.org", 443, WHY_OPERATOR},
		{NETWORK_ALLOWLIST, "+*:*", "b.org", 443, WHY_OPERATOR},
		{NETWORK_ALLOWLIST, "+a.org -a.org", "a.org", 443, WHY_BLOCKED},
		{NETWORK_ALLOWLIST, "", "a.org", 443, WHY_NOT_LISTED},
		/* More than the operator lets anybody have is nothing. */
		{NETWORK_FULL, "", "a.org", 443, WHY_OPERATOR},
		{NETWORK_FULL, "", "1.1.1.1", 443, WHY_OPERATOR},
	};

	(void)state;
	operator_says(
		"[network]\nmode = allowlist\nallow = a.org\nallow = *.a.org\nblock = x.a.org\n");
	check(rows, ARRAY_LEN(rows));
	operator_leaves();
}

static void full_with_operators_list(void **state)
{
	static const struct row rows[] = {
		{NETWORK_FULL, "", "a.org", 443, WHY_NONE},
		{NETWORK_FULL, "", "b.org", 443, WHY_OPERATOR},
		{NETWORK_FULL, "", "1.1.1.1", 443, WHY_OPERATOR},
	};

	(void)state;
	operator_says("[network]\nallow = a.org\n");
	check(rows, ARRAY_LEN(rows));
	operator_leaves();
}

static void addresses(void **state)
{
	struct address a;

	(void)state;
	operator_says("[network]\naddress = 127.0.0.1:5432\naddress = 1.1.1.1:443\n");
	assert_int_equal(address_parse("127.0.0.1", &a), 0);
	assert_int_equal(verdict_address(&operator_, &a, false, 5432), WHY_NONE);
	assert_int_equal(verdict_address(&operator_, &a, false, 5433), WHY_NOT_PUBLIC);
	assert_int_equal(address_parse("127.0.0.2", &a), 0);
	assert_int_equal(verdict_address(&operator_, &a, false, 5432), WHY_NOT_PUBLIC);
	assert_int_equal(address_parse("1.1.1.1", &a), 0);
	assert_int_equal(verdict_address(&operator_, &a, false, 1), WHY_NONE);
	assert_int_equal(verdict_address(&operator_, &a, true, 1), WHY_NOT_PUBLIC);
	assert_int_equal(verdict_address(&operator_, &a, true, 443), WHY_NONE);
	operator_leaves();
}

static void bad_rules(void **state)
{
	static const struct {
		const char *text;
		size_t len;
	} rows[] = {{"+a.org", 6}, {"a.org", 6}, {"+", 2}, {"", 1}, {"+a..b", 6}, {"+a.org\0-", 9}};
	static char many[3 * (EGRESS_RULES_MAX + 1)];
	struct rules r;
	struct cay_error err;

	(void)state;
	for (size_t n = 0; n < ARRAY_LEN(rows); n++)
		assert_int_equal(rules_parse(rows[n].text, rows[n].len, &r, &err), -1);
	for (size_t n = 0; n < sizeof(many); n += 3)
		memcpy(many + n, "-*", 3);
	assert_int_equal(rules_parse(many, sizeof(many), &r, &err), -1);
	assert_int_equal(err.code, CAY_E_TOO_LARGE);
	assert_int_equal(rules_parse(many, sizeof(many) - 3, &r, &err), 0);
	assert_int_equal(r.n_block, EGRESS_RULES_MAX);
	rules_done(&r);
}

static void journals(void **state)
{
	static struct journal j;
	struct egress_entry *first;
	bool is_new;
	char name[32];

	(void)state;
	first = journal_note(&j, "a.org", 443, WHY_NONE, &is_new);
	assert_true(is_new);
	assert_int_equal(first->verdict, VERDICT_ALLOWED);
	assert_ptr_equal(journal_note(&j, "a.org", 443, WHY_NONE, &is_new), first);
	assert_false(is_new);
	assert_int_equal(first->times, 2);
	assert_int_equal(journal_note(&j, "a.org", 443, WHY_PORT, &is_new)->verdict,
			 VERDICT_DENIED);
	assert_int_equal(journal_note(&j, "a.org", 443, WHY_REFUSED, &is_new)->verdict,
			 VERDICT_FAILED);
	for (int n = 2; n < EGRESS_ENTRIES_MAX - JOURNAL_REACHED; n++) {
		(void)snprintf(name, sizeof(name), "%d.org", n);
		assert_non_null(journal_note(&j, name, 0, WHY_NOT_LISTED, &is_new));
	}
	assert_null(journal_note(&j, "one.more", 0, WHY_NOT_LISTED, &is_new));
	assert_false(is_new);
	assert_int_equal(j.unlisted, 1);
	/* What was reached is listed, however much was refused before. */
	for (int n = 1; n < JOURNAL_REACHED; n++) {
		(void)snprintf(name, sizeof(name), "%d.net", n);
		assert_non_null(journal_note(&j, name, 443, WHY_NONE, &is_new));
	}
	assert_int_equal(j.n, EGRESS_ENTRIES_MAX);
	assert_null(journal_note(&j, "one.net", 443, WHY_NONE, &is_new));
	assert_int_equal(j.unlisted, 2);
	assert_non_null(journal_note(&j, "a.org", 443, WHY_NONE, &is_new));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_operator),
		cmocka_unit_test(with_operator),
		cmocka_unit_test(full_with_operators_list),
		cmocka_unit_test(addresses),
		cmocka_unit_test(bad_rules),
		cmocka_unit_test(journals),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
