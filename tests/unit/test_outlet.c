/* The api's side of cay-egress, when that is hung, or somebody else's. */
#include "session/outlet.h"

#include "base/fd.h"
#include "base/loop.h"
#include "base/strv.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static struct loop *loop;
static struct outlets *outlets;
static struct outlet outlet;
static int theirs;

static int begin(void **state)
{
	int pair[2], wires[EGRESS_FDS];
	struct cay_error err;

	(void)state;
	loop = loop_new();
	if (!loop ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
		return -1;
	theirs = pair[1];
	outlets = outlets_new(loop, pair[0]);
	outlet = (struct outlet){.all = outlets};
	for (int n = 0; n < EGRESS_FDS; n++)
		wires[n] = dup(theirs);
	return outlets ? outlet_open(&outlet, wires, &err) : -1;
}

static int end(void **state)
{
	(void)state;
	outlet_done(&outlet);
	outlets_free(outlets);
	loop_free(loop);
	(void)close(theirs);
	return 0;
}

static char packet[EGRESS_REQUEST_MAX]; /* that was read last */

/* The kinds of all that it was sent so far; how many. */
static size_t read_all(uint32_t last_kind[1])
{
	size_t n = 0;
	ssize_t len;

	for (;;) {
		loop_turn(loop, LOOP_ROUND);
		len = recv(theirs, packet, sizeof(packet), 0);
		if (len < 0)
			return n;
		assert_true(len >= (ssize_t)sizeof(struct egress_request));
		*last_kind = ((const struct egress_request *)(const void *)packet)->kind;
		n++;
	}
}

static void one_who_does_not_read(void **state)
{
	struct network_spec rules = {.mode = NETWORK_FULL};
	struct cay_error err;
	uint32_t kind = 0;
	size_t said = 0;

	(void)state;
	while (said < 100000 && outlet_ask(&outlet, false, NULL, NULL) == 0)
		said++;
	assert_true(said > 0 && said < 100000);
	assert_int_equal(outlet_set_rules(&outlet, &rules, NULL, NULL, &err), -1);
	assert_int_equal(err.code, CAY_E_AT_CAPACITY);
	/* Its end is never lost. */
	assert_int_equal(outlet_ask(&outlet, true, NULL, NULL), 0);
	assert_int_equal(read_all(&kind), 1 + said + 1);
	assert_int_equal(kind, EGRESS_CLOSE);
}

static void on_told(void *ctx, struct egress_log log)
{
	*(size_t *)ctx = log.n + 1;
	egress_log_done(&log);
}

/* The last request that it was sent, whose rules are in packet. */
static struct egress_request last_said(void)
{
	struct egress_request q = {0};

	memset(packet, 0, sizeof(packet));
	while (recv(theirs, packet, sizeof(packet), 0) >= (ssize_t)sizeof(q))
		memcpy(&q, packet, sizeof(q));
	return q;
}

static void answer(uint32_t kind, uint64_t serial)
{
	struct egress_answer a = {.kind = kind, .serial = serial};

	(void)cay_fail(&a.error, CAY_E_NOT_FOUND, 0, "there is no such network");
	assert_int_equal(send(theirs, &a, sizeof(a), 0), sizeof(a));
	loop_turn(loop, LOOP_ROUND);
}

/* -1: not told yet; 0: that they hold; else why not. */
static int ruled_code;

static void on_ruled(void *ctx, const struct cay_error *err)
{
	(void)ctx;
	ruled_code = err ? (int)err->code : 0;
}

/* The serial of the request with which it is told of a rule. */
static uint64_t change_rules(const char *rule)
{
	struct network_spec rules = {.mode = NETWORK_ALLOWLIST};
	struct egress_request q;
	struct cay_error err;

	ruled_code = -1;
	assert_int_equal(strv_add(&rules.allow, rule), 0);
	assert_int_equal(outlet_set_rules(&outlet, &rules, on_ruled, NULL, &err), 0);
	/* One at a time. */
	assert_int_equal(outlet_set_rules(&outlet, &rules, on_ruled, NULL, &err), -1);
	assert_int_equal(err.code, CAY_E_CONFLICT);
	strv_done(&rules.allow);
	q = last_said();
	assert_int_equal(q.kind, EGRESS_RULES);
	assert_int_equal(ruled_code, -1);
	return q.serial;
}

static void rules_are_answered(void **state)
{
	uint64_t serial;

	(void)state;
	serial = change_rules("a.org");
	answer(ANSWER_DONE, serial - 1);
	assert_int_equal(ruled_code, -1);
	answer(ANSWER_DONE, serial);
	assert_int_equal(ruled_code, 0);
	assert_string_equal(outlet.rules.text, "+a.org");
	answer(ANSWER_FAILED, change_rules("b.org"));
	assert_int_equal(ruled_code, CAY_E_NOT_FOUND);
	assert_string_equal(outlet.rules.text, "+a.org");
}

static void rules_are_given_to_the_next_one(void **state)
{
	struct egress_request q;
	uint64_t serial;

	(void)state;
	answer(ANSWER_HELLO, 0);
	serial = change_rules("a.org");
	answer(ANSWER_HELLO, 0);
	q = last_said();
	assert_int_equal(q.kind, EGRESS_OPEN);
	assert_string_equal(packet + sizeof(q), "+a.org");
	/* It also read what the one before it was told. */
	answer(ANSWER_FAILED, serial);
	assert_int_equal(ruled_code, -1);
	answer(ANSWER_DONE, q.serial);
	assert_int_equal(ruled_code, 0);
	assert_string_equal(outlet.rules.text, "+a.org");
}

static void hear_totals(uint64_t allowed)
{
	const struct egress_answer a = {.kind = ANSWER_TOTALS,
					.totals = {.networks = 1, .allowed = allowed}};

	assert_int_equal(send(theirs, &a, sizeof(a), 0), sizeof(a));
	loop_turn(loop, LOOP_ROUND);
}

static void totals_never_go_back(void **state)
{
	(void)state;
	answer(ANSWER_HELLO, 0);
	hear_totals(5);
	hear_totals(7);
	answer(ANSWER_HELLO, 0);
	assert_int_equal(outlets_totals(outlets)->allowed, 7);
	hear_totals(2);
	assert_int_equal(outlets_totals(outlets)->allowed, 9);
	assert_int_equal(outlets_totals(outlets)->networks, 1);
}

static void on_late(struct loop_timer *t)
{
	(void)t;
	loop_stop(loop);
}

/* Runs the loop for so long. */
static void run_for(uint64_t ms)
{
	struct loop_timer late = {.fire = on_late};

	assert_int_equal(loop_after(loop, &late, ms), 0);
	assert_int_equal(loop_run(loop), 0);
}

static void nobody_waits_for_one_that_is_closed_or_hung(void **state)
{
	(void)state;
	(void)change_rules("a.org");
	run_for(3100);
	assert_int_equal(ruled_code, CAY_E_ENGINE);
	/* What it may come to read yet is taken back. */
	assert_int_equal(last_said().kind, EGRESS_RULES);
	assert_string_not_equal(packet + sizeof(struct egress_request), "+a.org");
	(void)change_rules("b.org");
	outlet_done(&outlet);
	assert_int_equal(ruled_code, -1);
	run_for(10);
	assert_int_equal(ruled_code, CAY_E_ENGINE);
}

static void one_who_talks_nonsense(void **state)
{
	static const char nonsense[EGRESS_ANSWER_MAX + 1];
	struct egress_answer closed = {.kind = ANSWER_CLOSED};
	const size_t lengths[] = {0, 1, sizeof(closed) - 1, sizeof(closed), sizeof(nonsense)};
	size_t told = 0;

	(void)state;
	assert_int_equal(outlet_ask(&outlet, true, on_told, &told), 0);
	closed.serial = last_said().serial;
	for (size_t n = 0; n < sizeof(lengths) / sizeof(lengths[0]); n++) {
		assert_int_equal(send(theirs, nonsense, lengths[n], 0), lengths[n]);
		loop_turn(loop, LOOP_ROUND);
	}
	assert_int_equal(told, 0);
	assert_int_equal(send(theirs, &closed, sizeof(closed), 0), sizeof(closed));
	loop_turn(loop, LOOP_ROUND);
	assert_int_equal(told, 1);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(one_who_does_not_read),
		TEST(rules_are_answered),
		TEST(rules_are_given_to_the_next_one),
		TEST(nobody_waits_for_one_that_is_closed_or_hung),
		TEST(totals_never_go_back),
		TEST(one_who_talks_nonsense),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
