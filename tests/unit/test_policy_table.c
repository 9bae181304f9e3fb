/* docs/policy-table.md is what the policy does: each combination there is, looked up there. */
#include "base/attr.h"
#include "base/buf.h"
#include "base/fd.h"
#include "policy/bounds.h"
#include "policy/mode.h"
#include "policy/network.h"
#include "policy/scope.h"
#include "policy/tier.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROWS  40
#define CELLS 10

struct table {
	char *cells[ROWS][CELLS];
	size_t n;
	bool hit[ROWS];
	char *copy; /* what the cells point into */
};

static void table_done(struct table *t)
{
	free(t->copy);
}

static char text[64 << 10];

static char *trim(char *s)
{
	char *end = s + strlen(s);

	s += strspn(s, " `");
	while (end > s && (end[-1] == ' ' || end[-1] == '`'))
		*--end = '\0';
	return s;
}

static void read_row(struct table *t, char *line)
{
	size_t cell = 0;
	char *rest = line + 1, *s;

	assert_true(t->n < ROWS);
	while ((s = strsep(&rest, "|")) && rest) {
		assert_true(cell < CELLS);
		t->cells[t->n][cell++] = trim(s);
	}
	t->n++;
}

/* The rows below a title, without their own title. */
static struct table read_table(const char *title)
{
	struct table t = {.copy = strdup(text)};
	char *line, *rest = t.copy;
	int seen = -1;

	assert_non_null(rest);
	while ((line = strsep(&rest, "\n"))) {
		if (strncmp(line, "## ", 3) == 0)
			seen = strcmp(line + 3, title) == 0 ? 0 : -1;
		else if (line[0] == '|' && seen >= 0 && seen++ > 1)
			read_row(&t, line);
	}
	if (t.n == 0)
		fail_msg("no table '%s'", title);
	return t;
}

static size_t find(struct table *t, const char *const *values, size_t n)
{
	for (size_t row = 0; row < t->n; row++) {
		size_t i = 0;

		while (i < n && (!t->cells[row][i][0] || strcmp(t->cells[row][i], values[i]) == 0))
			i++;
		if (i == n) {
			t->hit[row] = true;
			return row;
		}
	}
	fail_msg("no row fits");
	return 0;
}

static void all_were_needed(const struct table *t)
{
	for (size_t row = 0; row < t->n; row++)
		if (!t->hit[row])
			fail_msg("row %zu (%s, %s …) never fits", row + 1, t->cells[row][0],
				 t->cells[row][1]);
}

static const char *yes(bool b)
{
	return b ? "yes" : "no";
}

static void check_mode(struct table *modes, struct table *places, const struct mode_question *q)
{
	const char *const asked[] = {q->own ? "cay run alone" : "daemon", mode_name(q->allowed),
				     q->asked == MODE_UNSAID ? "nothing" : mode_name(q->asked),
				     spec_engine_name(q->engine)};
	const char *mode = modes->cells[find(modes, asked, ARRAY_LEN(asked))][4];
	struct cay_error err = {0};
	struct mode_answer a;
	int r = mode_decide(q, &a, &err);

	if (strcmp(mode, "denied") == 0) {
		assert_int_equal(r, -1);
		assert_int_equal(err.code, CAY_E_POLICY);
		return;
	}
	{
		const char *const facts[] = {mode,
					     yes(q->scope),
					     spec_engine_name(q->engine),
					     yes(q->trusted),
					     yes(q->shell && q->network),
					     yes(q->risk),
					     q->tier_without ? "without" : "with",
					     q->key_direct ? "with" : "without"};
		char **row = places->cells[find(places, facts, ARRAY_LEN(facts))];
		struct settings s = {.serve_mode = q->allowed};
		const struct spec spec = {.mode = q->asked};
		const char *is = r < 0                       ? "denied"
				 : a.engine == ENGINE_DIRECT ? "direct"
							     : "sandbox";
		struct decision d = {0};

		if (r == 0)
			d = mode_decision(&a, &s, &spec, q->scope ? "shared" : NULL);
		if (strcmp(is, row[8]) != 0 || !strstr(r < 0 ? err.text : d.why, row[9]))
			fail_msg("%s, scope %s, engine %s, trusted %s: %s (%s), not %s (%s)", mode,
				 facts[1], facts[2], facts[3], is, r < 0 ? err.text : d.why, row[8],
				 row[9]);
		if (r == 0)
			assert_string_equal(d.mode, mode);
	}
}

static void modes_and_places(void **state _unused_)
{
	static const enum spec_engine engines[] = {ENGINE_AUTO, ENGINE_NATIVE, ENGINE_DIRECT};
	_cleanup_(table_done) struct table modes = read_table("Which mode is in force");
	_cleanup_(table_done) struct table places = read_table("Where it runs");

	for (int allowed = MODE_OFF; allowed <= MODE_ALL; allowed++)
		for (int asked = MODE_UNSAID; asked <= MODE_ALL; asked++)
			for (size_t e = 0; e < ARRAY_LEN(engines); e++)
				for (unsigned bits = 0; bits < 1u << 8; bits++) {
					const struct mode_question q = {
						.allowed = (enum mode)allowed,
						.asked = (enum mode)asked,
						.engine = engines[e],
						.trusted = bits & 1,
						.shell = bits & 2,
						.network = bits & 4,
						.risk = bits & 8 ? "language:bash" : NULL,
						.key_direct = bits & 16,
						.tier_without = bits & 32 ? "standard" : NULL,
						.scope = bits & 64,
						.own = bits & 128,
					};

					if (!q.scope || !q.own) /* a scope takes a daemon */
						check_mode(&modes, &places, &q);
				}
	all_were_needed(&modes);
	all_were_needed(&places);
}

/* -1: no tier, or nothing asked for. */
static void check_network(int tier, int key, int asked, const char *expected)
{
	struct bounds b = {.has_tier = key >= 0, .tier = key >= 0 ? (enum tier)key : TIER_SANDBOX};
	struct spec spec = {
		.has_tier = tier >= 0,
		.tier = tier >= 0 ? (enum tier)tier : TIER_SANDBOX,
		.network = {.said = asked >= 0,
			    .mode = asked >= 0 ? (enum network_mode)asked : NETWORK_NONE}};
	struct network_spec n = {0};
	struct settings s;
	struct cay_error err;
	int r;

	settings_init(&s);
	s.key = key >= 0 ? &b : NULL;
	assert_int_equal(strv_add(&s.network_allow, "*.example.org"), 0);
	r = network_decide(&spec, &s, &n, &err);
	if (strcmp(r < 0 ? "denied" : network_mode_name(n.mode), expected) != 0)
		fail_msg("tier %d, key %d, asked %d: not %s", tier, key, asked, expected);
	if (r == 0)
		network_spec_done(&n);
	settings_done(&s);
}

static void networks_of(const char *title, bool of_key)
{
	_cleanup_(table_done) struct table t = read_table(title);

	assert_int_equal(t.n, TIERS + 1);
	for (int row = 0; row <= TIERS; row++) {
		int tier = row - 1;

		assert_string_equal(t.cells[row][0], row ? tier_name((enum tier)tier) : "-");
		for (int asked = -1; asked < NETWORK_MODES; asked++)
			check_network(of_key ? -1 : tier, of_key ? tier : -1, asked,
				      t.cells[row][2 + asked]);
	}
}

static void networks(void **state _unused_)
{
	_cleanup_(table_done) struct table t = read_table("Network by both tiers");

	networks_of("Network by the request's tier", false);
	networks_of("Network by the key's tier", true);
	assert_int_equal(t.n, TIERS);
	for (int tier = 0; tier < TIERS; tier++)
		for (int key = 0; key < TIERS; key++)
			check_network(tier, key, -1, t.cells[tier][1 + key]);
}

static const char *may_mount(struct settings *s, struct spec *spec, enum access access)
{
	struct cay_error err;

	spec->n_mounts = 1;
	spec->mounts[0].access = access;
	return tier_check(spec, s, &err) < 0 ? "denied" : "allowed";
}

static void what_else_tiers_have(void **state _unused_)
{
	_cleanup_(table_done) struct table t = read_table("What else a tier has");

	assert_int_equal(t.n, TIERS);
	for (int tier = 0; tier < TIERS; tier++) {
		struct bounds b = {.has_tier = true, .tier = (enum tier)tier};
		struct spec spec = {.has_tier = true, .tier = (enum tier)tier}, plain = {0};
		char **row = t.cells[tier];
		struct settings s;

		settings_init(&s);
		assert_string_equal(row[0], tier_name((enum tier)tier));
		assert_string_equal(row[3], tier_without_direct(&spec, &s) ? "without" : "with");
		assert_string_equal(row[1], may_mount(&s, &spec, ACCESS_READ));
		assert_string_equal(row[2], may_mount(&s, &spec, ACCESS_WRITE));
		s.key = &b;
		assert_string_equal(row[1], may_mount(&s, &plain, ACCESS_READ));
		assert_string_equal(row[2], may_mount(&s, &plain, ACCESS_WRITE));
		assert_string_equal(row[3], tier_without_direct(&plain, &s) ? "without" : "with");
		settings_done(&s);
	}
}

static struct request_body request_of(const char *object)
{
	struct request_body q;
	struct cay_error err;
	char body[512];

	(void)snprintf(body, sizeof(body), "{\"code\":\"\",\"scope\":\"shared\"%s%s",
		       strlen(object) > 2 ? "," : "", object + 1);
	if (request_parse(&q, REQUEST_RUN, body, strlen(body), &err) < 0)
		fail_msg("%s: %s", body, err.text);
	return q;
}

static void scopes(void **state _unused_)
{
	_cleanup_(table_done) struct table t = read_table("A scope's sandbox");

	for (size_t row = 0; row < t.n; row++) {
		struct request_body first = request_of(t.cells[row][0]);
		struct request_body later = request_of(t.cells[row][1]);
		struct cay_error err = {0};
		int r = scope_check(&later, &first.spec, &err);

		if (strcmp(r < 0 ? "conflict" : "joins", t.cells[row][2]) != 0)
			fail_msg("row %zu: %d (%s), not %s", row + 1, r, err.text, t.cells[row][2]);
		if (r < 0)
			assert_int_equal(err.code, CAY_E_CONFLICT);
		request_body_done(&first);
		request_body_done(&later);
	}
}

static int read_file(void **state _unused_)
{
	_cleanup_(buf_done) struct buf all = BUF(sizeof(text) - 1);
	const char *root = getenv("CAY_SOURCE_ROOT");
	char path[4096];

	(void)snprintf(path, sizeof(path), "%s/docs/policy-table.md", root ? root : ".");
	if (fd_read_file_at(AT_FDCWD, path, &all) < 0)
		return -1;
	memcpy(text, all.data, all.len);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(modes_and_places),
		cmocka_unit_test(networks),
		cmocka_unit_test(what_else_tiers_have),
		cmocka_unit_test(scopes),
	};

	return cmocka_run_group_tests(tests, read_file, NULL);
}
