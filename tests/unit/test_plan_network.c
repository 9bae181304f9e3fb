#include "plan_support.h"

#define PROXY "http://198.18.0.1:3128"

static bool is_plan(const struct plan *p)
{
	struct cay_error err = {0};
	int r = plan_check(p, p->size, &err);

	if (r < 0)
		assert_string_equal(err.text, "not a plan: its network");
	return r == 0;
}

static struct plan *make_listed(void)
{
	struct cay_error err;

	assert_int_equal(spec_allow_domain(spec, "*.Example.org", &err), 0);
	assert_int_equal(spec_allow_domain(spec, "git.example.org:22", &err), 0);
	assert_int_equal(spec_block_domain(spec, "ads.example.org", &err), 0);
	add_args("ls", "-l");
	return make(NULL, NULL);
}

static void none_by_default(void **state)
{
	_cleanup_(freep) struct plan *p = NULL;

	(void)state;
	add_args("ls", "-l");
	p = make(NULL, NULL);
	assert_int_equal(p->network, NETWORK_NONE);
	assert_int_equal(p->rules.len + p->rules.first, 0);
	assert_null(env_of(p, "http_proxy"));
	assert_null(env_of(p, "NO_PROXY"));
}

static void rules_are_the_islands(void **state)
{
	_cleanup_(freep) struct plan *p = make_listed();
	_cleanup_(strv_done) struct strv allow = {0}, block = {0};

	(void)state;
	assert_int_equal(p->network, NETWORK_ALLOWLIST);
	CHECK_LIST(p, p->rules, "+*.example.org", "+git.example.org:22", "-ads.example.org");
	assert_true(p->rules.first < p->island_text);
	assert_int_equal(plan_rules(p, &allow, &block), 0);
	assert_int_equal(allow.len, 2);
	assert_string_equal(allow.items[1], "git.example.org:22");
	assert_int_equal(block.len, 1);
	assert_string_equal(block.items[0], "ads.example.org");
}

static void what_may_not_be_had_makes_no_plan(void **state)
{
	struct plan *p = NULL;
	struct cay_error err;

	(void)state;
	add_args("ls", "-l");
	settings.network_mode = NETWORK_ALLOWLIST;
	assert_int_equal(spec_set_network(spec, "full", &err), 0);
	assert_int_equal(plan_make(spec, &settings, NULL, NULL, NULL, &p, &err), -1);
	assert_int_equal(err.code, CAY_E_POLICY);
	assert_null(p);
}

/* Also for programs that look for it in capitals; whoever says another has another. */
static void programs_are_told_of_the_proxy(void **state)
{
	static const char *const names[] = {"http_proxy", "https_proxy", "HTTP_PROXY",
					    "HTTPS_PROXY"};
	_cleanup_(freep) struct plan *p = NULL;
	struct cay_error err;

	(void)state;
	assert_int_equal(spec_set_network(spec, "full", &err), 0);
	assert_int_equal(spec_add_env(spec, "HTTPS_PROXY=", &err), 0);
	assert_int_equal(spec_add_env(spec, "no_proxy=a.b", &err), 0);
	add_args("ls", "-l");
	p = make(NULL, NULL);
	assert_int_equal(p->network, NETWORK_FULL);
	for (size_t i = 0; i + 1 < ARRAY_LEN(names); i++)
		assert_string_equal(env_of(p, names[i]), PROXY);
	assert_string_equal(env_of(p, "HTTPS_PROXY"), "");
	assert_string_equal(env_of(p, "no_proxy"), "a.b");
	assert_string_equal(env_of(p, "NO_PROXY"), "localhost,127.0.0.1,::1");
}

/* On a live island there is no asking: its plan says what there is. */
static void programs_have_their_islands_network(void **state)
{
	_cleanup_(freep) struct plan *island = make_listed(), *p = NULL;

	(void)state;
	network_spec_done(&spec->network);
	settings.network_mode = NETWORK_NONE;
	spec->island = island;
	use_code("sh", "true");
	p = make(runtime, NULL);
	spec->island = NULL;
	assert_int_equal(p->network, NETWORK_ALLOWLIST);
	CHECK_LIST(p, p->rules, "+*.example.org", "+git.example.org:22", "-ads.example.org");
	assert_string_equal(env_of(p, "http_proxy"), PROXY);
	assert_true(plan_fits_command(island, p));
}

/* One that was made ahead is for any rules; one that has its own keeps them. */
static void rules_are_not_known_on_the_island(void **state)
{
	_cleanup_(freep) struct plan *a = make_listed(), *same = NULL, *more = NULL, *full = NULL;
	_cleanup_(freep) struct plan *none = NULL;
	struct cay_error err;

	(void)state;
	same = make(NULL, NULL);
	assert_true(plan_fits_island(a, same) && plan_fits_command(a, same));
	assert_int_equal(spec_block_domain(spec, "x.example.org", &err), 0);
	more = make(NULL, NULL);
	network_spec_done(&spec->network);
	none = make(NULL, NULL);
	assert_int_equal(spec_set_network(spec, "full", &err), 0);
	full = make(NULL, NULL);
	assert_true(plan_fits_island(a, more) && plan_fits_order(more, a));
	assert_false(plan_fits_command(a, more) || plan_fits_command(more, a));
	assert_false(plan_fits_island(a, none) || plan_fits_order(a, none));
	assert_false(plan_fits_island(full, none) || plan_fits_order(none, full));
	assert_false(plan_fits_island(full, a) || plan_fits_order(a, full));
	same->text[same->rules.first + 3] = 'x';
	assert_true(is_plan(same));
	assert_true(plan_fits_island(a, same));
	assert_false(plan_fits_command(a, same));
	same->limits.cpu_time_ms = 1000;
	assert_true(plan_fits_order(a, same));
	assert_false(plan_fits_island(a, same));
	same->limits.pids++;
	assert_false(plan_fits_order(a, same));
	same->limits.pids--;
	/* Text behind the rules is nobody's yet, and so makes them part of what is compared. */
	same->island_text++;
	same->text[same->island_text - 1] = '\0';
	assert_false(plan_fits_order(a, same));
}

/* What is the image's is compared by its text, wherever a plan that is not ours has it. */
static void rules_hide_no_image(void **state)
{
	_cleanup_(freep) struct plan *a = make_listed(), *b = make(NULL, NULL);

	(void)state;
	a->image = b->image = a->rules.first + 1;
	assert_true(plan_fits_island(a, b));
	b->text[b->image + 2] ^= 1;
	assert_false(plan_fits_island(a, b) || plan_fits_order(a, b));
}

/* Whoever gets a plan believes none of it. */
static void networks_are_checked(void **state)
{
	_cleanup_(freep) struct plan *p = make_listed();
	struct plan_list rules = p->rules;
	char *text = p->text + rules.first;
	const struct {
		size_t at;
		char c;
	} bad[] = {{0, '*'}, {0, ' '}, {0, '\0'}, {1, 'E'}, {3, 'E'}, {3, ':'}, {2, '*'}};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		char was = text[bad[i].at];

		text[bad[i].at] = bad[i].c;
		if (is_plan(p))
			fail_msg("'%c' at %zu", bad[i].c, bad[i].at);
		text[bad[i].at] = was;
	}
	assert_true(is_plan(p));
	p->network = NETWORK_NONE;
	assert_false(is_plan(p));
	p->network = NETWORK_FULL; /* has no list of what it allows */
	assert_false(is_plan(p));
	p->network = NETWORK_MODES;
	assert_false(is_plan(p));
	p->network = NETWORK_ALLOWLIST;
	p->rules.len = 4; /* what is behind them is none */
	assert_false(is_plan(p));
	p->rules.len = UINT32_MAX;
	assert_false(is_plan(p));
	p->rules = (struct plan_list){.first = rules.first, .len = 0};
	assert_false(is_plan(p));
	p->rules = (struct plan_list){0}; /* a list, and nothing in it */
	assert_false(is_plan(p));
	p->rules = (struct plan_list){.first = p->island_text, .len = 1};
	assert_false(is_plan(p));
	p->rules = (struct plan_list){.first = UINT32_MAX, .len = 1};
	assert_false(is_plan(p));
	p->rules = rules;
	assert_true(is_plan(p));
	p->network = NETWORK_FULL;
	p->rules = (struct plan_list){0};
	assert_true(is_plan(p));
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(none_by_default),
		TEST(rules_are_the_islands),
		TEST(what_may_not_be_had_makes_no_plan),
		TEST(programs_are_told_of_the_proxy),
		TEST(programs_have_their_islands_network),
		TEST(rules_are_not_known_on_the_island),
		TEST(rules_hide_no_image),
		TEST(networks_are_checked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
