#include "session/quota.h"

#include "base/attr.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOUR (3600ll * 1000)

static const struct owner alice = {.kind = OWNER_UID, .uid = 1000};
static const struct owner bob = {.kind = OWNER_UID, .uid = 1001};

static void freep(struct quota **q)
{
	quota_free(*q);
}

static struct quota *quota(int64_t runs, int64_t sandboxes)
{
	struct quota *q =
		quota_new(&(struct key_quotas){.parallel_runs = runs, .live_sandboxes = sandboxes});

	assert_non_null(q);
	return q;
}

/* 0 where it was taken, else when to try again. */
static int64_t take(struct quota *q, const struct owner *o, struct key_quotas limits, int64_t now,
		    enum cay_code code, const char *names)
{
	struct cay_error err = {0};
	int64_t retry_s = -1;

	if (quota_take_run(q, o, &limits, now, &retry_s, &err) == 0) {
		if (code != CAY_OK)
			fail_msg("taken at %lld", (long long)now);
		return 0;
	}
	if (err.code != code || !strstr(err.text, names))
		fail_msg("%s: %s", cay_code_name(err.code), err.text);
	assert_true(retry_s >= 1);
	assert_true(err.hint[0]);
	return retry_s;
}

static void runs_at_once(void **state)
{
	_cleanup_(freep) struct quota *q = quota(0, 0);
	const struct key_quotas two = {.parallel_runs = 2};

	(void)state;
	(void)take(q, &alice, two, 0, CAY_OK, "");
	(void)take(q, &alice, two, 0, CAY_OK, "");
	assert_int_equal(take(q, &alice, two, 0, CAY_E_RATE_LIMITED, "parallel_runs of 2"), 1);
	(void)take(q, &bob, two, 0, CAY_OK, "");
	quota_end_run(q, &alice, 0, 0);
	(void)take(q, &alice, two, 0, CAY_OK, "");
	assert_int_equal(quota_used_total(q).runs, 3);
}

static void runs_of_all_together(void **state)
{
	_cleanup_(freep) struct quota *q = quota(2, 0);
	const struct key_quotas none = {0}, two = {.runs_per_minute = 2};

	(void)state;
	(void)take(q, &alice, none, 0, CAY_OK, "");
	(void)take(q, &bob, two, 0, CAY_OK, "");
	(void)take(q, &bob, two, 0, CAY_E_AT_CAPACITY, "all 2 runs at once");
	quota_end_run(q, &alice, 0, 0);
	/* What was refused was not counted. */
	(void)take(q, &bob, two, 0, CAY_OK, "");
}

static void run_and_end(struct quota *q, struct key_quotas limits, int64_t now)
{
	(void)take(q, &alice, limits, now, CAY_OK, "");
	quota_end_run(q, &alice, 0, now);
}

static void runs_a_minute(void **state)
{
	_cleanup_(freep) struct quota *q = quota(0, 0);
	const struct key_quotas three = {.runs_per_minute = 3};
	int64_t wait;

	(void)state;
	run_and_end(q, three, 100500);
	run_and_end(q, three, 110500);
	run_and_end(q, three, 120500);
	wait = take(q, &alice, three, 120500, CAY_E_RATE_LIMITED, "runs_per_minute of 3");
	assert_in_range(wait, 40, 41);
	(void)take(q, &alice, three, 160499, CAY_E_RATE_LIMITED, "runs_per_minute");
	run_and_end(q, three, 120500 + wait * 1000);
	wait = take(q, &alice, three, 120500 + wait * 1000, CAY_E_RATE_LIMITED, "runs_per_minute");
	assert_in_range(wait, 9, 10);
	/* Long after all is forgotten. */
	for (int i = 0; i < 3; i++)
		run_and_end(q, three, 100 * HOUR);
	(void)take(q, &alice, three, 100 * HOUR, CAY_E_RATE_LIMITED, "runs_per_minute");
}

/* In no minute are there more, however they come; and as soon as it was said there is one again. */
static void no_minute_has_more(void **state)
{
	enum { MAX = 5, TRIES = 20000 };
	_cleanup_(freep) struct quota *q = quota(0, 0);
	const struct key_quotas limits = {.runs_per_minute = MAX};
	static int64_t taken[TRIES];
	int64_t now = 0, retry_s;
	size_t n = 0;
	unsigned seed = 1;

	(void)state;
	for (int i = 0; i < TRIES; i++) {
		struct cay_error err;

		seed = seed * 1103515245u + 12345u;
		now += seed >> 16 & 0x1fff;
		if (quota_take_run(q, &alice, &limits, now, &retry_s, &err) < 0) {
			if (i % 3 == 0) { /* what was promised holds */
				now += retry_s * 1000;
				assert_int_equal(
					quota_take_run(q, &alice, &limits, now, &retry_s, &err), 0);
			} else {
				continue;
			}
		}
		quota_end_run(q, &alice, 0, now);
		taken[n++] = now;
		if (n > MAX)
			assert_true(now - taken[n - 1 - MAX] >= 60000);
	}
	assert_true(n > 1000);
}

static void cpu_a_day(void **state)
{
	_cleanup_(freep) struct quota *q = quota(0, 0);
	const struct key_quotas ten = {.cpu_seconds_per_day = 10}, none = {0};
	struct cay_error err;
	int64_t now = 1000 * HOUR + HOUR / 2, wait; /* not where a slot begins */

	(void)state;
	assert_int_equal(quota_cpu_left_ms(q, &alice, &ten, now), 10000);
	assert_true(quota_cpu_left_ms(q, &alice, &none, now) == INT64_MAX);
	(void)take(q, &alice, ten, now, CAY_OK, "");
	quota_end_run(q, &alice, 9999.4, now);
	assert_int_equal(quota_cpu_left_ms(q, &alice, &ten, now), 1);
	(void)take(q, &alice, ten, now, CAY_OK, "");
	quota_end_run(q, &alice, 5000, now);
	assert_int_equal(quota_cpu_left_ms(q, &alice, &ten, now), 1);
	wait = take(q, &alice, ten, now, CAY_E_RATE_LIMITED, "cpu_seconds_per_day of 10");
	assert_in_range(wait, 24 * 3600, 25 * 3600);
	(void)take(q, &alice, ten, now + 24 * HOUR - 1, CAY_E_RATE_LIMITED, "cpu_seconds_per_day");
	(void)take(q, &alice, ten, now + wait * 1000, CAY_OK, "");
	(void)take(q, &bob, ten, now, CAY_OK, "");
	/* What the store knows from before. */
	assert_int_equal(quota_add_cpu(q, &bob, 10000, now, &err), 0);
	(void)take(q, &bob, ten, now, CAY_E_RATE_LIMITED, "cpu_seconds_per_day");
}

static void sandboxes(void **state)
{
	_cleanup_(freep) struct quota *q = quota(0, 3);
	const struct key_quotas two = {.live_sandboxes = 2}, none = {0};
	struct cay_error err = {0};
	int64_t retry_s;

	(void)state;
	assert_int_equal(quota_take_sandbox(q, &alice, &two, &retry_s, &err), 0);
	assert_int_equal(quota_take_sandbox(q, &alice, &two, &retry_s, &err), 0);
	assert_int_equal(quota_take_sandbox(q, &alice, &two, &retry_s, &err), -1);
	assert_int_equal(err.code, CAY_E_RATE_LIMITED);
	assert_non_null(strstr(err.text, "live_sandboxes of 2"));
	assert_int_equal(quota_take_sandbox(q, &bob, &none, &retry_s, &err), 0);
	assert_int_equal(quota_take_sandbox(q, &bob, &none, &retry_s, &err), -1);
	assert_int_equal(err.code, CAY_E_AT_CAPACITY);
	assert_non_null(strstr(err.text, "all 3 live sandboxes"));
	quota_end_sandbox(q, &alice);
	assert_int_equal(quota_take_sandbox(q, &bob, &none, &retry_s, &err), 0);
	assert_int_equal(quota_used_total(q).sandboxes, 3);
	quota_end_sandbox(q, &bob);
	assert_int_equal(quota_take_sandbox(q, &alice, &two, &retry_s, &err), 0);
}

/* Thousands of owners come and go, and nothing is left of them. */
static void owners_are_forgotten(void **state)
{
	_cleanup_(freep) struct quota *q = quota(0, 0);
	const struct key_quotas limits = {.runs_per_minute = 1};

	(void)state;
	for (unsigned i = 0; i < 5000; i++) {
		struct owner o = {.kind = OWNER_UID, .uid = i};

		if (i % 2) {
			o = (struct owner){.kind = OWNER_KEY};
			(void)snprintf(o.key, sizeof(o.key), "key_%016u", i);
		}
		(void)take(q, &o, limits, 1000, CAY_OK, "");
		if (i > 0)
			quota_end_run(q, &o, 5, 1000);
	}
	assert_int_equal(quota_tidy(q, 1000), 5000);
	assert_int_equal(quota_tidy(q, 2 * HOUR), 5000); /* their CPU time counts still */
	assert_int_equal(quota_tidy(q, 26 * HOUR), 1);   /* one runs on */
	assert_int_equal(quota_used_total(q).runs, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(runs_at_once),
		cmocka_unit_test(runs_of_all_together),
		cmocka_unit_test(runs_a_minute),
		cmocka_unit_test(no_minute_has_more),
		cmocka_unit_test(cpu_a_day),
		cmocka_unit_test(sandboxes),
		cmocka_unit_test(owners_are_forgotten),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
